package rules

import (
	"fmt"
	"strings"

	"github.com/xdsrelay/xdsrelay/keyer"
)

const atEnd = "<EOF>"

func (x *issue) reservedWord(groups []string) string {
	return fmt.Sprintf("%q is a reserved word of CEL", groups[0])
}

// strangeToken is for characters that begin nothing.
func (x *issue) strangeToken(groups []string) string {
	token := strings.TrimSpace(groups[0])
	switch {
	case token == "=":
		return `"=" is not an operator: use == to compare`
	case token == "=~" || token == "~":
		return fmt.Sprintf(`%q is not an operator: use node.id.matches("…") for a regular expression`, token)
	case token == "&" || token == "|":
		return fmt.Sprintf("%q is not an operator: it is written %s", token, token+token)
	case strings.ContainsAny(token, "“”„‘’«»"):
		return fmt.Sprintf(`%s is not a quote: use " or '`, token)
	case strings.HasPrefix(token, `"`) || strings.HasPrefix(token, "'"):
		if strings.Contains(token, `\`) {
			return `a string with an invalid escape, or without an end: write a backslash as \\, or the string as r"…"`
		}
		return "a string without an end"
	}
	return fmt.Sprintf("unexpected %q", keyer.Shorten(token))
}

func (x *issue) missingToken(groups []string) string {
	if groups[1] == atEnd {
		return fmt.Sprintf("%s is missing at the end", strings.ReplaceAll(groups[0], "'", `"`))
	}
	return fmt.Sprintf("%s is missing before %q", strings.ReplaceAll(groups[0], "'", `"`), keyer.Shorten(groups[1]))
}

// unexpectedToken is for tokens that cannot stand where they do.
func (x *issue) unexpectedToken(groups []string) string {
	token, expected := groups[0], ""
	if len(groups) > 1 {
		expected = groups[1]
	}
	if operator, ok := inWords[token]; ok {
		return fmt.Sprintf("unexpected %q: it is written %s", token, operator)
	}
	message := fmt.Sprintf("unexpected %q", keyer.Shorten(token))
	if token == atEnd || x.char(x.offset) == 0 {
		message = "the expression ends too early"
	}
	if expected == "':'" {
		message += `: "?" needs a ":", as in condition ? this : that`
	}
	return message
}
