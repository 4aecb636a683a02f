package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// call checks what stands in a call.
func (k *checker) call(e ast.Expr) {
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals:
		k.compared(args[0], args[1])
		k.compared(args[1], args[0])
		k.neverNull(args[0], args[1])
		k.neverNull(args[1], args[0])
	case operators.In:
		if args[1].Kind() == ast.ListKind {
			for _, element := range args[1].AsList().Elements() {
				k.compared(args[0], element)
			}
		}
	case "matches":
		k.pattern(args[1])
	case "regex.extract", "regex.extractAll":
		if re := k.pattern(args[1]); re != nil && re.NumSubexp() > 1 {
			k.problemAt(args[1], "%d groups in a regular expression that takes one part: (?:…) groups without taking", re.NumSubexp())
		}
	case "regex.replace":
		if re := k.pattern(args[1]); re != nil {
			k.groups(args[2], re)
		}
	case "replace":
		k.plainText(args)
	case "join":
		for _, separator := range args[1:] {
			k.writtenOut(separator, "a separator")
		}
	case "format":
		k.writtenOut(args[0], "a format")
	}
}

// writtenOut refuses what is not a literal: a client must not supply it. Regular
// expressions and formats of a hostile client could cost far more than its node is long.
func (k *checker) writtenOut(e ast.Expr, what string) (string, bool) {
	text, ok := literalString(e)
	if !ok {
		k.problemAt(e, "%s must be a literal in quotes", what)
	}
	return text, ok
}

// pattern checks a regular expression; nil if it is none.
func (k *checker) pattern(e ast.Expr) *regexp.Regexp {
	text, ok := k.writtenOut(e, "a regular expression")
	if !ok {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		k.problemAt(e, "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return nil
	}
	return re
}

var dollarGroup = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$(\d+|\{\w+\})`) })

// groups checks what regex.replace puts in.
func (k *checker) groups(e ast.Expr, re *regexp.Regexp) {
	text, ok := k.writtenOut(e, "the replacement")
	if !ok {
		return
	}
	if found := dollarGroup().FindString(text); found != "" {
		k.problemAt(e, `%q would be inserted literally: a group is written \1, in quotes as in r"\1"`, found)
		return
	}
	if _, err := parseReplacement(text, re); err != nil {
		k.problemAt(e, "%v", err)
	}
}

var likePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\^|\$$|\[.+\][+*?]|\.[*+]|\\[dwsDWSb]|\(\?`) })

// plainText refuses regular expressions in replace, which would look for their text.
func (k *checker) plainText(args []ast.Expr) {
	if text, ok := literalString(args[1]); ok && likePattern().MatchString(text) {
		k.problemAt(args[1], "replace looks for text, not for a regular expression: use regex.replace(text, %s, with)", strconv.Quote(text))
	}
	k.writtenOut(args[2], "the replacement")
}

// compared checks a literal that a variable is compared with.
func (k *checker) compared(variable, with ast.Expr) {
	text, ok := literalString(with)
	if !ok || variable.Kind() != ast.IdentKind {
		return
	}
	switch variable.AsIdent() {
	case varType:
		if wrong := notTypeURL(text); wrong != "" {
			k.problemAt(with, "%s", wrong)
		}
	case varName:
		if !k.access && strings.HasPrefix(text, "xdstp:") {
			k.problemAt(with, "rules never see an xdstp name: all clients share xdstp names")
		}
	}
}

// neverNull refuses null where a message is compared with it: one that is not set is empty.
func (k *checker) neverNull(message, with ast.Expr) {
	if with.Kind() != ast.LiteralKind || with.AsLiteral() != types.NullValue || k.ast.GetType(message.ID()).Kind() != types.StructKind {
		return
	}
	text, err := cel.ExprToString(message, k.ast.SourceInfo())
	switch {
	case err != nil:
		k.problemAt(with, "a message is never null")
	case message.Kind() == ast.SelectKind:
		k.problemAt(with, "%s is never null: use has(%s) to test whether it is set", text, text)
	default:
		k.problemAt(with, "%s is never null", text)
	}
}

// notTypeURL says why type is never this; "" if it can be.
func notTypeURL(text string) string {
	if _, ok := keyer.TypeURL(text); ok {
		return fmt.Sprintf("type is a type URL, never %q: use %s without quotes", text, strings.ToLower(text))
	}
	if strings.Contains(text, "/") {
		return misspelt(text)
	}
	for _, short := range keyer.ShortNames() {
		url, _ := keyer.TypeURL(short)
		if strings.HasSuffix(url, "/"+text) || strings.HasSuffix(url, "."+text) {
			return fmt.Sprintf("type is a type URL, never %q: use %s without quotes", text, short)
		}
	}
	return fmt.Sprintf(`type is a type URL, such as "type.googleapis.com/%s", never %q`, cmp.Or(text, "…"), text)
}

var version = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.v\d+\w*\.`) })

// misspelt says that a type URL is almost one of those that have a short name; "" if not.
// A type of another version is a type of its own.
func misspelt(typeURL string) string {
	const few = 2 // letters
	for _, short := range keyer.ShortNames() {
		url, _ := keyer.TypeURL(short)
		if d := keyer.Edits([]rune(typeURL), []rune(url), few+1); d > 0 && d <= few && version().FindString(typeURL) == version().FindString(url) {
			return fmt.Sprintf("type is never %q: use %s without quotes for %q", typeURL, short, url)
		}
	}
	return ""
}
