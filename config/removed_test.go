package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Every removed key is in testdata/bad/removed.yaml, and none is still a key.
func TestRemoved(t *testing.T) {
	data, err := os.ReadFile("testdata/bad/removed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]bool)
	for _, l := range leaves(reflect.Value{}, reflect.TypeFor[Config](), "") {
		keys[l.path] = true
	}
	for _, l := range leaves(reflect.Value{}, reflect.TypeFor[Upstream](), "") {
		keys["upstreams[]."+l.path] = true
	}
	for _, path := range removed {
		if want := ": " + strings.ReplaceAll(path, "[]", "[0]") + ": " + removedMessage; !strings.Contains(string(data), want) {
			t.Errorf("%s is not in the file of removed keys", path)
		}
		if keys[path] || !isRemoved(path) {
			t.Errorf("%s is still a key", path)
		}
	}
}

// A variable that sets a removed key is an error, though unknown variables are none.
func TestRemovedVariable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "xdsrelay.yaml")
	if err := os.WriteFile(file, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file, nil, []string{"XDSRELAY_RESOLVE_MAX_REDIRECTS=3"})
	if want := "XDSRELAY_RESOLVE_MAX_REDIRECTS: removed, see CHANGELOG"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
