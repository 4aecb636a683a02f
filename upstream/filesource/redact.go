package filesource

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// position takes the place off an error of protojson or prototext.
var position = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:syntax error )?\(line (\d+):(\d+)\): ((?s:.*))$`)
})

// reasons say which errors of protojson and prototext are told, and in which
// words. What is captured comes from the API's definition and not from the file,
// but for type URLs, which have a form that no secret has: a slash, and behind
// it words with dots between them.
var reasons = sync.OnceValue(func() []reason {
	return []reason{
		{regexp.MustCompile(`^unable to resolve (?:message )?[\["]([\w.-]+/\w+(?:\.\w+)+)[\]"]: `), "unknown type $1: this build can read it in binary form only"},
		{regexp.MustCompile(`^unable to resolve `), "unknown type or extension"},
		{regexp.MustCompile(`^(invalid value for \w+ (?:field \w+|key|type)): `), "$1"},
		{regexp.MustCompile(`^(invalid google\.protobuf\.\w+)\b`), "$1"},
		{regexp.MustCompile(`^(google\.protobuf\.\w+) value out of range`), "$1 out of range"},
		{regexp.MustCompile(`^unknown (?:map entry )?field`), "unknown field"},
		{regexp.MustCompile(`^invalid field name`), "unknown field"},
		{regexp.MustCompile(`^duplicate field`), "field given twice"},
		{regexp.MustCompile(`^non-repeated field (?s:.*) is repeated$`), "field given twice"},
		{regexp.MustCompile(`^duplicate map key`), "key given twice"},
		// The last comma of the message: what stands before it is quoted from the file.
		{regexp.MustCompile(`^error parsing (?s:.*), oneof ([\w.]+) is already set$`), "another field of $1 is set already"},
		{regexp.MustCompile(`^cannot specify field by number`), "field given by its number"},
		{regexp.MustCompile(`^missing field separator`), "missing : behind the name of a field"},
		{regexp.MustCompile(`^missing "(@type|value)" field`), "missing $1"},
		{regexp.MustCompile(`^duplicate "(@type|value)" field`), "$1 given twice"},
		{regexp.MustCompile(`^@type field`), "@type is empty or no string"},
		{regexp.MustCompile(`^mismatched close character`), "closed by the wrong bracket"},
		{regexp.MustCompile(`^unexpected token`), "unexpected token"},
		{regexp.MustCompile(`^unexpected character`), "unexpected character"},
		{regexp.MustCompile(`^invalid (?:character|escape code|octal|hex|Unicode)`), "invalid character or escape in a string"},
		{regexp.MustCompile(`invalid UTF-8`), "invalid UTF-8"},
		{regexp.MustCompile(`^unexpected EOF`), "ends too early: it is not complete"},
		{regexp.MustCompile(`^exceeded max(?:imum)? recursion depth`), "nested too deep"},
	}
})

type reason struct {
	pattern *regexp.Regexp
	message string
}

// parserError makes of an error of protojson or prototext one that holds nothing
// of the file's contents.
func parserError(err error) *Error {
	// The module puts one of two kinds of space there, so that nobody relies on it.
	text := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	bad := &Error{Message: "syntax error"}
	if m := position().FindStringSubmatch(text); m != nil {
		// Digits; an absurd number of them leaves the place unknown.
		bad.Line, _ = strconv.Atoi(m[1])
		bad.Column, _ = strconv.Atoi(m[2])
		text = m[3]
	}
	for _, r := range reasons() {
		if m := r.pattern.FindStringSubmatchIndex(text); m != nil {
			bad.Message = string(r.pattern.ExpandString(nil, r.message, text, m))
			break
		}
	}
	return bad
}
