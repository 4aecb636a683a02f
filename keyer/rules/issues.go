package rules

import "cel.dev/cel-go/cel"

// issues makes problems of what CEL says of an expression.
func (c *compiler) issues(i int, field, source string, issues *cel.Issues) {
	for _, issue := range issues.Errors() {
		c.problems = append(c.problems, Problem{
			Rule: i, Field: field, Message: issue.Message,
			Line: issue.Location.Line(), Column: issue.Location.Column() + 1,
		})
	}
}
