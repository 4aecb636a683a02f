package integration

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTP1Examples plays the worked examples of the xdstp proposal (TP1) over real
// sockets. Each is a file in testdata/tp1 that has every message between clients,
// relay and control planes; what the relay sends is compared field by field.
func TestTP1Examples(t *testing.T) {
	examples := map[string]string{
		"singleton":                "VAR-4 NAME-2 a name, and the relay's own node",
		"list-by-reference":        "LIST-1 LIST-2 the members are asked for before the client asks",
		"list-inline":              "LIST-1 LIST-4 an entry by its name",
		"glob-with-redirect":       "GLOB-1 GLOB-3 LOC-1 LOC-2 a redirect, and its target once the client asks",
		"failover-stripped":        "LOC-3 LOC-7 OPS-1 RES-12 a client that asks the alternative by itself",
		"failover-directive":       "LOC-5 NAME-4 NAME-8 a client that leaves it to the relay",
		"relay":                    "GLOB-1 GLOB-2 GLOB-6 SUB-10 LOC-7 two clients, two globs, one stream upstream",
		"relay-state-of-the-world": "GLOB-7 VAR-7 RES-13 the same with clients of the other form",
	}
	files, err := filepath.Glob("testdata/tp1/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, f := range files {
		name, _ := strings.CutSuffix(filepath.Base(f), ".yaml")
		there = append(there, name)
	}
	slices.Sort(there)
	if want := slices.Sorted(maps.Keys(examples)); !slices.Equal(there, want) {
		t.Errorf("testdata/tp1 has %v, want %v", there, want)
	}
	for name, what := range examples {
		t.Run(name+" "+what, func(t *testing.T) { playScript(t, "testdata/tp1/"+name+".yaml") })
	}
}
