package rules

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// issue is one thing that CEL has to say of an expression, with what is needed to say it
// in words that an operator knows.
type issue struct {
	env     *cel.Env
	source  string
	parsed  *ast.AST // nil if the expression is none
	id      int64    // of the term, 0 if unknown
	message string   // CEL's
	offset  int      // in characters
}

// issues makes problems of what CEL says of an expression. What follows from another
// problem is left out: after the first wrong character the rest is guessing, and a term
// without meaning has no type that could fit.
func (c *compiler) issues(i int, field, source string, found *cel.Issues) {
	parsed, unparsable := c.env.Parse(source)
	var list []issue
	for _, e := range found.Errors() {
		x := issue{env: c.env, source: source, id: e.ExprID, message: e.Message, offset: -1}
		if e.Location.Line() > 0 {
			x.offset = offsetOf(source, e.Location.Line(), e.Location.Column())
		}
		if unparsable.Err() == nil {
			x.parsed = parsed.NativeRep()
		}
		list = append(list, x)
	}
	slices.SortStableFunc(list, func(a, b issue) int { return a.offset - b.offset })
	if unparsable.Err() != nil {
		list = list[:1]
	}
	if slices.ContainsFunc(list, issue.undeclared) {
		list = slices.DeleteFunc(list, issue.mismatch)
	}
	for _, x := range list {
		message := x.translate()
		c.at(i, field, source, x.offset, message)
	}
}

func (x issue) undeclared() bool { return strings.HasPrefix(x.message, "undeclared reference") }
func (x issue) mismatch() bool   { return strings.HasPrefix(x.message, "found no matching overload") }

// at notes a problem at a character of an expression, or of it as a whole: -1.
func (c *compiler) at(i int, field, source string, offset int, message string) {
	p := Problem{Rule: i, Field: field, Message: message}
	if offset >= 0 {
		p.Line, p.Column = position(source, offset)
	}
	c.problems = append(c.problems, p)
}

// offsetOf gives the place of a line, from 1, and a column, from 0, in characters.
func offsetOf(source string, line, column int) int {
	offset := 0
	for _, text := range strings.SplitAfter(source, "\n")[:line-1] {
		offset += len([]rune(text))
	}
	return offset + column
}

// position gives line and column, both from 1, of a place in characters.
func position(source string, offset int) (line, column int) {
	before := []rune(source)
	before = before[:min(offset, len(before))]
	line = 1
	for i, r := range before {
		if r == '\n' {
			line, column = line+1, -i-1
		}
	}
	return line, column + len(before) + 1
}

// translations are CEL's messages, each with what is said instead. A translation may move
// the issue to a better place.
var translations = sync.OnceValue(func() []translation {
	return []translation{
		{regexp.MustCompile(`^undefined field '(.*)'$`), (*issue).undefinedField},
		{regexp.MustCompile(`^undeclared reference to '([^']*)'`), (*issue).undeclaredReference},
		{regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'$`), (*issue).noOverload},
		{regexp.MustCompile(`^expected type '(.*)' but found '(.*)'$`), (*issue).wrongOperand},
		{regexp.MustCompile(`^type '(.*)' does not support field selection$`), (*issue).noFields},
		{regexp.MustCompile(`^invalid argument to has\(\) macro$`), (*issue).notForHas},
		{regexp.MustCompile(`^expression of type '(.*)' cannot be range of a comprehension`), (*issue).noRange},
		{regexp.MustCompile(`^comprehension exceeds nesting limit$`), (*issue).tooManyLoops},
		{regexp.MustCompile(`^expression recursion limit exceeded`), (*issue).tooDeep},
		{regexp.MustCompile(`^reserved identifier: (.*)$`), (*issue).reservedWord},
		{regexp.MustCompile(`(?s)^Syntax error: token recognition error at: '(.*)'$`), (*issue).strangeToken},
		{regexp.MustCompile(`(?s)^Syntax error: missing (.*) at '(.*)'$`), (*issue).missingToken},
		{regexp.MustCompile(`(?s)^Syntax error: (?:mismatched|extraneous) input '(.*)' expecting (.*)$`), (*issue).unexpectedToken},
		{regexp.MustCompile(`(?s)^Syntax error: no viable alternative at input '(.*)'$`), (*issue).unexpectedToken},
	}
})

type translation struct {
	pattern *regexp.Regexp
	say     func(x *issue, groups []string) string
}

// translate gives the message.
func (x *issue) translate() string {
	for _, t := range translations() {
		if groups := t.pattern.FindStringSubmatch(x.message); groups != nil {
			return t.say(x, groups[1:])
		}
	}
	return keyer.Shorten(strings.TrimPrefix(x.message, "Syntax error: "))
}

// char gives a character of the source, 0 beyond its ends.
func (x *issue) char(offset int) rune {
	runes := []rune(x.source)
	if offset < 0 || offset >= len(runes) {
		return 0
	}
	return runes[offset]
}

// term finds the term that the issue is about, nil if it is unknown.
func (x *issue) term() ast.Expr {
	if x.parsed == nil {
		return nil
	}
	var found ast.Expr
	ast.PreOrderVisit(x.parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() == x.id {
			found = e
		}
	}))
	return found
}

// typeOf gives the type of a part of the expression, nil where it has none by itself.
func (x *issue) typeOf(e ast.Expr) *cel.Type {
	text, err := cel.ExprToString(e, x.parsed.SourceInfo())
	if err != nil {
		return nil
	}
	checked, issues := x.env.Compile(text)
	if issues.Err() != nil {
		return nil
	}
	return checked.OutputType()
}

// toStart moves the issue from a term's operator to where the term begins.
func (x *issue) toStart() {
	e := x.term()
	if e == nil {
		return
	}
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if at, ok := offsetOfID(x.parsed, e.ID()); ok && at < x.offset {
			x.offset = at
		}
	}))
}

func offsetOfID(a *ast.AST, id int64) (int, bool) {
	span, ok := a.SourceInfo().GetOffsetRange(id)
	return int(span.Start), ok
}

// toWord moves the issue from the bracket of a call to the function's name.
func (x *issue) toWord(name string) {
	runes := []rune(x.source)
	end := min(x.offset, len(runes))
	for end > 0 && unicode.IsSpace(runes[end-1]) {
		end--
	}
	if start := end - len([]rune(name)); start >= 0 && string(runes[start:end]) == name {
		x.offset = start
	}
}
