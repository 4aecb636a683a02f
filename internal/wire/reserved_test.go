package wire

import (
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

func TestWords_DYN1_ABS4(t *testing.T) {
	locator := func(name string, keys ...string) *discoveryv3.ResourceLocator {
		l := &discoveryv3.ResourceLocator{Name: name, DynamicParameters: make(map[string]string)}
		for _, key := range keys {
			l.DynamicParameters[key] = "value"
		}
		return l
	}
	names := []string{"a", ""}
	if words := Words(names, nil); &words[0] != &names[0] {
		t.Errorf("usual names were copied: %q", words)
	}
	for _, test := range []struct {
		of         string
		words      []string
		name       string
		reserved   bool
		parameters bool
	}{
		{"a name", Words([]string{"x"}, nil), "x", false, false},
		{"a locator without parameters is a name", Words(nil, []*discoveryv3.ResourceLocator{locator("x")}), "x", false, false},
		{"a locator with parameters", Words(nil, []*discoveryv3.ResourceLocator{locator("x", "env", "version")}), "x", true, true},
		{"a locator with parameters and without a name", Words(nil, []*discoveryv3.ResourceLocator{locator("", "env")}), "", true, true},
		{"a name that begins with a NUL", Words([]string{"\x00x"}, nil), "\x00x", true, false},
		{"such a name in a locator", Words(nil, []*discoveryv3.ResourceLocator{locator("\x00x")}), "\x00x", true, false},
		{"a name that is a NUL", Words([]string{"\x00"}, nil), "\x00", true, false},
	} {
		t.Run(test.of, func(t *testing.T) {
			if len(test.words) != 1 || IsReserved(test.words[0]) != test.reserved {
				t.Fatalf("got %q, reserved %t wanted", test.words, test.reserved)
			}
			if name, parameters := CutWord(test.words[0]); name != test.name || parameters != test.parameters {
				t.Errorf("%q stands for %q, parameters %t", test.words[0], name, parameters)
			}
		})
	}
	words := Words([]string{"a"}, []*discoveryv3.ResourceLocator{locator("b"), locator("c", "env")})
	if want := []string{"a", "b", "\x00c"}; !slices.Equal(words, want) {
		t.Errorf("got %q, want %q", words, want)
	}
}
