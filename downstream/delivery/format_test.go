package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func TestFormats(t *testing.T) {
	r := &wire.Resource{Name: "server's"}
	for _, tt := range []struct {
		name    string
		form    Form
		own     bool
		called  string
		removes bool
	}{
		{"NAME-4 incremental: the client's name", Form{TTL: true}, false, "client's", true},
		{"the relay itself", Form{}, true, "client's", true},
		{"NAME-4 ABS-1 bare: the server's name", Form{State: true}, false, "server's", false},
		{"RES-13 ABS-1 wrapped: the client's name", Form{State: true, Wrapped: true}, false, "client's", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.form.format(tt.own)
			name, size := f.measure(r, "client's")
			if name != tt.called || size < len(name)+r.Size() {
				t.Errorf("%q with %d bytes, want %q", name, size, tt.called)
			}
			if removes := f.absence() == nil; removes != tt.removes {
				t.Errorf("tells absence by a removal: %t, want %t", removes, tt.removes)
			}
		})
	}
}

func TestSpelling_NAME4(t *testing.T) {
	const (
		glob = "xdstp://a/t/g/*?x=1&y=2"
		as   = "xdstp://a/t/g/*?y=2&x=1"
	)
	for _, tt := range []struct{ text, key, member, want string }{
		{glob, glob, "xdstp://a/t/g/m?x=1&y=2", "xdstp://a/t/g/m?x=1&y=2"},
		{as, glob, "xdstp://a/t/g/m?x=1&y=2", "xdstp://a/t/g/m?y=2&x=1"},
		{"*", "*", "m", "m"},
	} {
		s := newSpelling(tt.text, tt.key)
		if got := s.ofKey(tt.member); got != tt.want || s.wildcard != (tt.key == "*") || s.renamed != (tt.text != tt.key) {
			t.Errorf("%q: %+v calls %q %q, want %q", tt.text, s, tt.member, got, tt.want)
		}
	}
}
