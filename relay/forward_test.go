package relay

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func peerWith(metadata map[string][]string) *keyer.Peer {
	return &keyer.Peer{Metadata: func(name string) []string { return metadata[name] }}
}

// Sessions have equal keys exactly if the values that go upstream are equal.
func TestForward_ACC6_keys(t *testing.T) {
	names := []string{"authorization", "x-consul-token", "x-bin"}
	key := func(names []string, metadata map[string][]string) string {
		t.Helper()
		f, err := forward(peerWith(metadata), names)
		if err != nil {
			t.Fatal(err)
		}
		return f.key
	}
	one := key(names, map[string][]string{"authorization": {"a", "b"}, "x-consul-token": {"c"}})
	for name, other := range map[string]string{
		"another order of names": key([]string{"x-bin", "x-consul-token", "authorization"}, map[string][]string{"authorization": {"a", "b"}, "x-consul-token": {"c"}}),
		"other metadata":         key(names, map[string][]string{"authorization": {"a", "b"}, "x-consul-token": {"c"}, "cookie": {"d"}}),
		"names that are not met": key(append(names, "x-more"), map[string][]string{"authorization": {"a", "b"}, "x-consul-token": {"c"}}),
	} {
		if other != one {
			t.Errorf("%s: another key", name)
		}
	}
	seen := map[string]string{one: "the first"}
	for name, metadata := range map[string]map[string][]string{
		"none":              {"cookie": {"a"}},
		"another value":     {"authorization": {"a", "x"}, "x-consul-token": {"c"}},
		"another order":     {"authorization": {"b", "a"}, "x-consul-token": {"c"}},
		"one value":         {"authorization": {"ab"}, "x-consul-token": {"c"}},
		"under other names": {"authorization": {"c"}, "x-consul-token": {"a", "b"}},
		"one name":          {"authorization": {"a", "b", "c"}},
		"an empty value":    {"authorization": {""}},
		"bytes":             {"x-bin": {"\x00\xff"}},
	} {
		got := key(names, metadata)
		if (got == "") != (name == "none") {
			t.Errorf("%s: key %q", name, got)
		}
		if before, taken := seen[got]; taken {
			t.Errorf("%s has the key of %s", name, before)
		}
		seen[got] = name
	}
	if got := key(nil, map[string][]string{"authorization": {"a"}}); got != "" {
		t.Errorf("nothing is passed on, and the key is %q", got)
	}
	if f, err := forward(&keyer.Peer{}, names); err != nil || f.key != "" {
		t.Errorf("a peer of which nothing is known: %v, %v", f, err)
	}
}

// What gRPC could not send, or is too much to be kept, ends the stream. The error does not
// say what it is.
func TestForward_ACC6_OPS5(t *testing.T) {
	for name, tt := range map[string]struct {
		value string
		code  codes.Code
	}{
		"a line break": {"secret\n", codes.InvalidArgument},
		"no ASCII":     {"secr\u00e9t", codes.InvalidArgument},
		"too long":     {strings.Repeat("secret", maxForwarded/6+1), codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := forward(peerWith(map[string][]string{"authorization": {tt.value}}), []string{"authorization"})
			if status.Code(err) != tt.code || strings.Contains(err.Error(), "secr") {
				t.Errorf("error %v, want %v without the value", err, tt.code)
			}
		})
	}
}
