package config

import (
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, tt := range []struct {
		address    string
		connecting bool
		listening  bool
	}{
		{"127.0.0.1:1", true, true},
		{"[::1]:65535", true, true},
		{"[fe80::1%eth0]:80", true, true},
		{"xds.example.com:443", true, true},
		{"xds.example.com.:443", true, true},
		{"my_service:443", true, true},
		{"localhost:80", true, true},
		{":80", false, true},
		{"[::]:0", false, true},
		{"", false, false},
		{"localhost", false, false},
		{"localhost:", false, false},
		{"localhost:http", false, false},
		{"localhost:+80", false, false},
		{"localhost:-0", false, false},
		{"localhost:65536", false, false},
		{"::1:80", false, false},
		{"10.0.0.256:80", false, false},
		{"10.0.0:80", false, false},
		{"a b:80", false, false},
		{"a..b:80", false, false},
		{".:80", false, false},
		{long + ":80", false, false},
		{strings.Repeat("a.", 127) + "a:80", false, false},
		{"dns:///xds.example.com:443", false, false},
	} {
		for to, want := range map[use]bool{connecting: tt.connecting, listening: tt.listening} {
			k := &checker{}
			k.address("address", tt.address, to)
			if got := len(k.errs) == 0; got != want {
				t.Errorf("%q, use %d: valid %t, want %t: %v", tt.address, to, got, want, k.errs)
			}
		}
	}
}
