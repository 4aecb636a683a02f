package restjson

import (
	"mime"
	"regexp"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

const contentType = "application/json"

// maxNesting bounds how deep messages may lie in messages that are read, and
// payloads in payloads that are written. Every level of payloads is encoded again
// with all that lies above it, so that protobuf's own bound of 10,000 would let a
// small message keep a processor busy.
const maxNesting = 200

// mediaType gives the type that a Content-Type names, "" for none or a bad one.
func mediaType(header string) string {
	media, _, err := mime.ParseMediaType(header)
	if err != nil {
		return ""
	}
	return media
}

// unread resolves types for what is read of a client. Its only payloads are the details of an error, which nobody
// reads: each is taken for a message without fields, of which everything is discarded like any other unknown field.
// protojson would encode a payload again at each level of payloads.
type unread struct{ *protoregistry.Types }

// FindMessageByURL implements protojson's resolver.
func (unread) FindMessageByURL(string) (protoreflect.MessageType, error) {
	return (*corev3.AggregatedConfigSource)(nil).ProtoReflect().Type(), nil
}

// What protojson says, as far as it is told: its own words end in the value that
// it stumbled on, which could be a secret (OPS-6). Names of fields and types stay.
//
// The patterns are made when they are first needed: most relays never do, and they are large.
var position = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\(line (\d+:\d+)\)`) })

type cause struct {
	pattern *regexp.Regexp
	says    string
}

var causes = sync.OnceValue(func() []cause {
	return []cause{
		{regexp.MustCompile(`invalid value for (\S+) field ([\w.]+):`), "invalid value for $1 field $2"},
		{regexp.MustCompile(`invalid value for (\S+) key:`), "invalid value for $1 key"},
		{regexp.MustCompile(`unable to resolve "([\w./-]{1,200})":`), "this build does not know the type $1"},
		{regexp.MustCompile(`(unknown|duplicate) field "([\w.-]{1,200})"`), "$1 field $2"},
		{regexp.MustCompile(`oneof ([\w.]+) is already set`), "more than one field of $1"},
		{regexp.MustCompile(`(google\.protobuf\.\w+)`), "invalid $1"},
		{regexp.MustCompile(`(missing|duplicate) "(@type|value)" field`), "$1 field $2"},
		{regexp.MustCompile(`exceeded max recursion depth`), "nested too deep"},
		{regexp.MustCompile(`unexpected EOF`), "the text ends too early"},
		{regexp.MustCompile(`invalid UTF-8`), "invalid UTF-8"},
		{regexp.MustCompile(`unexpected token`), "unexpected token"},
		{regexp.MustCompile(`syntax error`), "not JSON"},
	}
})

// problemBytes is how much of an error of protojson is looked at. What is behind that is the value, which may be large.
const problemBytes = 4 << 10

// problem tells what protojson found, and where, without quoting any value.
func problem(err error) string {
	text, says := err.Error(), "invalid"
	text = text[:min(len(text), problemBytes)]
	for _, c := range causes() {
		if at := c.pattern.FindStringSubmatchIndex(text); at != nil {
			says = string(c.pattern.ExpandString(nil, c.says, text, at))
			break
		}
	}
	if at := position().FindStringSubmatch(text); at != nil {
		return "line " + at[1] + ": " + says
	}
	return says
}

// lenient reads what a client sends: what a newer one knows more is passed over.
func lenient() protojson.UnmarshalOptions {
	return protojson.UnmarshalOptions{
		DiscardUnknown: true, RecursionLimit: maxNesting,
		Resolver: unread{protoregistry.GlobalTypes},
	}
}

// shorten cuts a text from elsewhere to what a message should hold, on one line.
func shorten(text string, limit int) string {
	text = oneLine(text)
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "�")), " ")
}
