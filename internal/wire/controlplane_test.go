package wire

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

func TestSTR10_identifier(t *testing.T) {
	for name, tt := range map[string]struct{ encoded, want string }{
		"none":               {"", ""},
		"one":                {"\x0a\x02cp", "cp"},
		"the last counts":    {"\x0a\x02cp\x0a\x01x", "x"},
		"unknown fields":     {"\x10\x01\x0a\x02cp\x1a\x00", "cp"},
		"broken":             {"\x0a\x02cp\x0a", ""},
		"no valid string":    {"\x0a\x02c\xff", "c\uFFFD"},
		"too long":           {string(encoded.Bytes(&corev3.ControlPlane{Identifier: strings.Repeat("x", 2*MaxIdentifier)})), strings.Repeat("x", MaxIdentifier)},
		"cut in a character": {string(encoded.Bytes(&corev3.ControlPlane{Identifier: strings.Repeat("€", MaxIdentifier)})), strings.Repeat("€", MaxIdentifier/3)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := identifier([]byte(tt.encoded)); got != tt.want || !utf8.ValidString(got) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// Both forms of responses say who sends them, each in its own field.
func TestSTR10_SetControlPlane(t *testing.T) {
	for _, state := range []bool{false, true} {
		var b Builder
		b.SetControlPlane("cp", state)
		if state {
			b.AddAny(newResource(t, &discoveryv3.Resource{Name: "a", Resource: payload(200)}))
		} else {
			b.Add(newResource(t, &discoveryv3.Resource{Name: "a", Resource: payload(200)}))
		}
		size := b.Size()
		m := b.Finish(clusterType, "v", "n")
		var empty Builder
		if header := empty.Finish(clusterType, "v", "n").Len(); m.Len() != size+header || m.Len() != len(m.Bytes()) {
			t.Errorf("state %t: %d bytes, announced %d and a header of %d", state, len(m.Bytes()), size, header)
		}
		var got interface {
			GetControlPlane() *corev3.ControlPlane
			GetNonce() string
		}
		if state {
			got = parseState(t, m)
		} else {
			got = parse(t, m)
		}
		if got.GetControlPlane().GetIdentifier() != "cp" || got.GetNonce() != "n" {
			t.Errorf("state %t: %v", state, got)
		}
		if next := b.Finish(clusterType, "v", "n"); strings.Contains(string(next.Bytes()), "cp") {
			t.Errorf("state %t: the next response says it again", state)
		}
	}
}
