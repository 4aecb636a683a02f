package config

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Expressions have characters that mean something to YAML, too: quotes at their beginning,
// commas and brackets in a flow list, ": " and " #" anywhere. What YAML makes of them is
// told as an error of something else, or cut short; the hints say what to do about it.
const (
	quoteExpression = ": put the expression in quotes"
	quoteOrDashes   = ": put the expression in quotes, or write the list with dashes"
	writeBlock      = ": write an expression of several lines as a block, after |"
)

// expressionPath matches the keys of a rule that hold expressions, and what is in them.
var expressionPath = regexp.MustCompile(`^aggregation\.rules\[\d+\]\.(match|scope|node)\b`)

// notString is a hint for what stands where a string should.
func notString(n *yaml.Node, path string) string {
	if strings.HasSuffix(path, "listen") && scalarTag(n) == "!!int" {
		return `: write ":` + n.Value + `"`
	}
	if hint := quotes(n); hint != "" {
		return hint
	}
	if expressionPath.MatchString(path) && scalarTag(n) != "!!null" {
		return quoteExpression
	}
	return ""
}

// notList is a hint for what stands where a list of expressions should.
func notList(n *yaml.Node, path string) string {
	if expressionPath.MatchString(path) && scalarTag(n) == "!!str" {
		return ": put it in brackets, or after a dash"
	}
	return ""
}

// notKey is a hint for a key that nobody knows: what stands behind a comma of an
// expression in a flow mapping looks like one.
func notKey(path, key string) string {
	if expressionPath.MatchString(path) && strings.Trim(key, wordCharacters+".") != "" {
		return quoteExpression
	}
	return ""
}

// cut is a hint for an expression of which YAML took a part only.
func (s *scalars) cut(path string) string {
	if s == nil || s.nodes[path] == nil {
		return ""
	}
	n := s.nodes[path]
	if n.Style != 0 || balanced(n.Value) {
		return ""
	}
	before, behind, _ := s.find(path, 1)
	before, behind = strings.TrimRight(before, " \t"), strings.TrimLeft(behind, " \t")
	switch {
	case strings.HasPrefix(behind, "#"):
		return "; in YAML the rest is a comment" + quoteExpression
	case strings.HasPrefix(behind, ","), strings.HasSuffix(before, ","):
		return "; in YAML the comma separates two expressions" + quoteOrDashes
	default:
		return ""
	}
}

// balanced says whether the brackets and quotes of an expression come in pairs.
func balanced(expression string) bool {
	var open []rune
	var quote rune
	escaped := false
	for _, r := range expression {
		switch {
		case escaped:
			escaped = false
		case quote != 0:
			if escaped = r == '\\'; r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case strings.ContainsRune("([{", r):
			open = append(open, r)
		case strings.ContainsRune(")]}", r):
			if len(open) == 0 || open[len(open)-1] != map[rune]rune{')': '(', ']': '[', '}': '{'}[r] {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return quote == 0 && len(open) == 0
}

// behindValue matches a line in which something follows what is a whole value to YAML:
// text in quotes, or a list or mapping in brackets. The parser tells of it at the
// beginning of the mapping or list that the line is in.
var behindValue = regexp.MustCompile(`^\s*(?:-\s+)*(?:[\w.-]+:\s+)?(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|\[.*\]|\{.*\})\s*[^\s#:,]`)

// expressionHint gives the line that an error of the parser is about, and a hint if it
// seems to come from an expression of a rule.
func expressionHint(data []byte, line int, message string) (at int, hint string) {
	lines := strings.Split(string(data), "\n")
	if line < 1 || line > len(lines) {
		return line, ""
	}
	if message == "did not find expected key" || message == "did not find expected '-' indicator" {
		for i := line; i <= len(lines); i++ {
			if inRules(lines, i) && behindValue.MatchString(lines[i-1]) {
				line = i
				break
			}
		}
	}
	text := strings.TrimSpace(lines[line-1])
	if strings.HasPrefix(text, "&&") || strings.HasPrefix(text, "||") {
		return line, writeBlock
	}
	m := expressionLine.FindStringSubmatch(text)
	if m == nil || !inRules(lines, line) {
		return line, ""
	}
	if strings.HasPrefix(m[1], "[") && message != "did not find expected key" {
		return line, quoteOrDashes
	}
	return line, quoteExpression
}

// expressionLine matches a line with a value, or the rest of one, that has signs of an
// expression.
var expressionLine = regexp.MustCompile(`^(?:-\s+)*(?:[\w.-]+:\s+)?(.*(?:["'(\[{!?]|[=<>]=|&&|\|\|).*)$`)

// inRules says whether a line lies in the list of rules, by its indentation.
func inRules(lines []string, line int) bool {
	const list = "rules:"
	if strings.Contains(lines[line-1], list+" [") {
		return true
	}
	trimmed := strings.TrimLeft(lines[line-1], " ")
	depth, item := len(lines[line-1])-len(trimmed), strings.HasPrefix(trimmed, "-")
	for i := line - 2; i >= 0; i-- {
		text := strings.TrimLeft(lines[i], " ")
		indent := len(lines[i]) - len(text)
		if strings.TrimSpace(text) == "" || text[0] == '#' || indent > depth || indent == depth && !item {
			continue
		}
		if strings.HasPrefix(text, list) {
			return true
		}
		depth, item = indent, strings.HasPrefix(text, "-")
	}
	return false
}
