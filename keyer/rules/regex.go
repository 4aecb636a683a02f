package rules

import (
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// maxText bounds the text that a regular expression is tried on (OPS-5): it takes time in
// proportion to it, and a client may send megabytes.
const maxText = 16 << 10

// compiledRegexes makes programs hold their regular expressions, which are all written
// out, compiled: CEL's own functions compile them with each call, all but matches.
func compiledRegexes() cel.ProgramOption {
	var list []*interpreter.RegexOptimization
	for function, overloads := range map[string][]string{
		"matches":          {"matches", "matches_string"},
		"regex.extract":    {"regex_extract_string_string"},
		"regex.extractAll": {"regex_extractAll_string_string"},
		"regex.replace":    {"regex_replace_string_string_string", "regex_replace_string_string_string_int"},
	} {
		for _, overload := range overloads {
			list = append(list, &interpreter.RegexOptimization{
				Function: function, OverloadID: overload, RegexIndex: 1, Factory: compiledCall,
			})
		}
	}
	return cel.OptimizeRegex(list...)
}

// compiledCall replaces a call by one of a function that has the expression ready.
func compiledCall(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	var apply func(text string, args []ref.Val) ref.Val
	switch call.Function() {
	case "matches":
		apply = func(text string, _ []ref.Val) ref.Val { return types.Bool(re.MatchString(text)) }
	case "regex.extract":
		apply = func(text string, _ []ref.Val) ref.Val { return extract(re, text) }
	case "regex.extractAll":
		apply = func(text string, _ []ref.Val) ref.Val { return extractAll(re, text) }
	case "regex.replace":
		with := call.Args()[2].(interpreter.InterpretableConst).Value().(types.String)
		pieces, err := parseReplacement(string(with), re)
		if err != nil {
			return nil, err
		}
		apply = func(text string, args []ref.Val) ref.Val { return pieces.replace(re, text, args[3:]) }
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		text, ok := args[0].(types.String)
		switch {
		case !ok:
			return types.MaybeNoSuchOverloadErr(args[0])
		case len(text) > maxText:
			return types.NewErr("a text of %d bytes is too long for a regular expression: at most %d", len(text), maxText)
		}
		return apply(string(text), args)
	}), nil
}

// extract gives the first match, or the part of it that is in the group. An empty group
// counts as none.
func extract(re *regexp.Regexp, text string) ref.Val {
	match := re.FindStringSubmatch(text)
	switch {
	case match == nil, len(match) > 1 && match[1] == "":
		return types.OptionalNone
	}
	return types.OptionalOf(types.String(match[len(match)-1]))
}

func extractAll(re *regexp.Regexp, text string) ref.Val {
	list := []string{}
	for _, match := range re.FindAllStringSubmatch(text, -1) {
		if len(match) == 1 || match[1] != "" {
			list = append(list, match[len(match)-1])
		}
	}
	return types.NewStringList(types.DefaultTypeAdapter, list)
}

// replacement is what regex.replace puts in, taken apart.
type replacement []piece

// piece is a text, or a group of the match where group is not negative.
type piece struct {
	text  string
	group int
}

// parseReplacement reads \0 to \9 for groups and \\ for a backslash.
func parseReplacement(with string, re *regexp.Regexp) (replacement, error) {
	var pieces replacement
	for {
		text, rest, found := strings.Cut(with, `\`)
		pieces = append(pieces, piece{text: text, group: -1})
		if !found {
			return pieces, nil
		}
		switch {
		case strings.HasPrefix(rest, `\`):
			pieces = append(pieces, piece{text: `\`, group: -1})
		case rest == "" || rest[0] < '0' || rest[0] > '9':
			return nil, fmt.Errorf(`behind \ there has to be the number of a group or another \: %.64q`, with)
		default:
			group := int(rest[0] - '0')
			if group > re.NumSubexp() {
				return nil, fmt.Errorf(`\%d: the regular expression has no such group`, group)
			}
			pieces = append(pieces, piece{group: group})
		}
		with = rest[1:]
	}
}

// replace puts the pieces in for the first matches, or for all: most has their number, if
// anything, and all if that is negative.
func (r replacement) replace(re *regexp.Regexp, text string, most []ref.Val) ref.Val {
	n := -1
	if len(most) > 0 {
		limit, ok := most[0].(types.Int)
		if !ok {
			return types.MaybeNoSuchOverloadErr(most[0])
		}
		n = int(max(limit, -1))
	}
	var out strings.Builder
	done := 0
	for _, match := range re.FindAllStringSubmatchIndex(text, n) {
		out.WriteString(text[done:match[0]])
		done = match[1]
		for _, p := range r {
			if p.group < 0 {
				out.WriteString(p.text)
			} else if from, to := match[2*p.group], match[2*p.group+1]; from >= 0 {
				out.WriteString(text[from:to])
			}
		}
	}
	out.WriteString(text[done:])
	return types.String(out.String())
}
