package identity

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// What HTTP/2 sends again in a byte counts once. A line of HTTP/1.1 counts however often it is there.
func TestHeaderBytes_LIM2(t *testing.T) {
	for name, c := range map[string]struct {
		version  int
		header   http.Header
		min, max int
	}{
		"one header":               {2, http.Header{"Authorization": {strings.Repeat("x", 5000)}}, 5000, 5050},
		"a value again and again":  {2, http.Header{"X": slices.Repeat([]string{strings.Repeat("x", 3600)}, 14)}, 3600, 3650},
		"a name again and again":   {2, http.Header{strings.Repeat("X", 3600): {"a", "b", "c", "a"}}, 3600, 3650},
		"several values":           {2, http.Header{"X": {strings.Repeat("x", 1000), strings.Repeat("y", 1000)}}, 2000, 2050},
		"the same lines, HTTP/1.1": {1, http.Header{strings.Repeat("X", 100): slices.Repeat([]string{"value"}, 10)}, 1050, 1150},
	} {
		r := &http.Request{Method: http.MethodPost, RequestURI: "/", Host: "relay", ProtoMajor: c.version, Header: c.header.Clone()}
		if n := headerBytes(r); n < c.min || n > c.max {
			t.Errorf("%s: %d bytes, want %d to %d", name, n, c.min, c.max)
		}
		for key, values := range c.header {
			if !slices.Equal(r.Header[key], values) {
				t.Errorf("%s: the headers have changed", name)
			}
		}
	}
}
