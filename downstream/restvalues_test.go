package downstream

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/quota"
)

// list is JSON of so many elements.
func list(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// filled is JSON of about so many bytes: elements between a beginning and an end.
func filled(bytes int, begin, element, end string) string {
	return begin + list(bytes/(len(element)+1), element) + end
}

// A poll has the relay allocate a few times its bytes, whatever its JSON is: what has very many values is refused before it
// is decoded.
func TestPollMemory_LIM1_LIM2_LIM3(t *testing.T) {
	const (
		size   = 2 << 20
		factor = 12
		slack  = 512 << 10 // of what the test and the server allocate for any poll
	)
	var keys strings.Builder
	for i := 0; keys.Len() < size; i++ {
		fmt.Fprintf(&keys, `"%x":0,`, i)
	}
	nested := func(open, end string) string { return strings.Repeat(open, 90) + "0" + strings.Repeat(end, 90) }
	const tooMany, names, deep, served = "values beside its names", "the names of the poll have", "nested too deep", `"name":"a"`
	for name, c := range map[string]struct {
		body string
		says string
	}{
		"numbers in a node":       {filled(size, `{"node":{"metadata":{"a":`, "1", `}}}`), tooMany},
		"lists in a node":         {filled(size, `{"node":{"metadata":{"a":`, "[]", `}}}`), tooMany},
		"objects in a node":       {filled(size, `{"node":{"metadata":{"a":`, `{"":1}`, `}}}`), tooMany},
		"deep lists in a node":    {filled(size, `{"node":{"metadata":{"a":`, nested("[", "]"), `}}}`), tooMany},
		"keys in a node":          {`{"node":{"metadata":{` + keys.String() + `"":0}}}`, tooMany},
		"extensions":              {filled(size, `{"node":{"extensions":`, "{}", `}}`), tooMany},
		"details of an error":     {filled(size, `{"error_detail":{"details":`, "{}", `}}`), tooMany},
		"unknown fields":          {"{" + keys.String() + `"":0}`, tooMany},
		"values of unknown field": {filled(size, `{"newer":`, "0", `}`), tooMany},
		"names with escapes":      {filled(size, `{"resource\u005fnames":`, `""`, `}`), tooMany},
		"no object":               {filled(size, "", "[]", ""), tooMany},
		"broken":                  {filled(size, `{"node":{"metadata":{"a":`, "[]", ":::"), tooMany},
		"names":                   {filled(size, `{"resource_names":`, `""`, `}`), names},
		"locators":                {filled(size, `{"resourceLocators":`, `{}`, `}`), names},
		"60,000 lists":            {`{"node":{"metadata":{"a":` + strings.Repeat("[", 60_000), deep},
		"60,000 objects":          {`{"newer":` + strings.Repeat(`{"a":`, 60_000), deep},
		"payloads in payloads": {`{"resource_names":["a"],"error_detail":{"details":[` + strings.Repeat(`{"@type":"type.googleapis.com/google.protobuf.Any","value":`, 90) +
			`{"@type":"type.googleapis.com/google.protobuf.StringValue","value":"` + strings.Repeat("x", size) + `"}` + strings.Repeat("}", 90) + `]}}`, served},
		"a long number": {`{"node":{"metadata":{"a":` + strings.Repeat("1", size) + `}}}`, "line 1:26: invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			restBubble(t, func(h *harness) {
				h.opaque.real(clusterType, "1", "a")
				p, body := h.poller(clusterPath), []byte(c.body)
				before := allocated()
				p.post(body)
				h.advance(mergeTime)
				took := allocated() - before
				if got := p.answer.Body.String(); !strings.Contains(got, c.says) {
					h.Errorf("the poll got %d %.300s, want %q", p.answer.Code, got, c.says)
				}
				t.Logf("a poll of %d KiB has %d KiB allocated", len(body)>>10, took>>10)
				if took > factor*int64(len(body))+slack {
					h.Errorf("a poll of %d bytes has %d allocated", len(body), took)
				}
				if c.says == tooMany {
					h.limited(LimitNode, 1)
				}
			}, func(conf *Config) { conf.PerClient.NodeBytes = 256 << 10 })
		})
	}
}

// allocated is how many bytes were ever allocated.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// A poll may have as many values as its node has room for in protobuf, and some more. Names have bounds of their own, and
// short ones are for few.
func TestPollValues_LIM1_REST2(t *testing.T) {
	const most = 1<<10 + 1<<10/4
	names := func(n int) string { return `{"resource_names":` + list(n, `"a"`) + `}` }
	for name, c := range map[string]struct {
		body string
		says string
	}{
		"as many as there may be": {`{"resource_names":["a"],"newer":` + list(most-2, "0") + `}`, ""},
		"one more":                {`{"resource_names":["a"],"newer":` + list(most-1, "0") + `}`, "the poll has 1281 values beside its names, at most 1280 are served (limits.node_bytes)"},
		"many short names":        {names(131_000), ""},
		"too many short names":    {names(132_000), "the names of the poll have 132001 values in 528020 bytes, at most 131538 are served"},
	} {
		t.Run(name, func(t *testing.T) {
			restBubble(t, func(h *harness) {
				h.opaque.real(clusterType, "1", "a")
				p := h.poller(clusterPath)
				p.post([]byte(c.body))
				if c.says == "" {
					p.wants("200 a=1")
					return
				}
				p.refusedWith(http.StatusRequestEntityTooLarge, c.says)
				if h.seen.closed[codes.ResourceExhausted] != 1 || len(h.router.nodes) > 0 {
					h.Errorf("the poll ended with %v", h.seen.closed)
				}
			}, func(conf *Config) { conf.PerClient.NodeBytes = 1 << 10 })
		})
	}
}

// fullHouse is an Admission that lets nobody in, and says which queue a client came to.
type fullHouse struct{}

func (fullHouse) Room() error { return nil }

func (fullHouse) Join(context.Context, quota.Client) (Turn, error) {
	return nil, status.Error(codes.Unavailable, "joins")
}

func (fullHouse) Poll(context.Context, quota.Client) (Turn, error) {
	return nil, status.Error(codes.Unavailable, "polls")
}

// A poll is not decoded before its turn.
func TestPollWaitsUndecoded_LIM2(t *testing.T) {
	for body, queue := range map[string]string{
		`{"node":`:                          "joins",
		`{"version_info":"","node":{}`:      "joins",
		`{"version_info":"1","node":`:       "polls",
		`{"versionInfo" : "1"`:              "polls",
		`{"node":{"version_info":"1"}, bad`: "joins",
	} {
		restBubble(t, func(h *harness) {
			h.server.Admit(fullHouse{})
			p := h.poller(clusterPath)
			p.post([]byte(body))
			p.refusedWith(http.StatusServiceUnavailable, queue)
		})
	}
}
