package admin_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

var update = flag.Bool("update", false, "write testdata/contract.txt anew")

// pages are the types that the pages answer with.
var pages = []struct {
	path string
	v    any
}{
	{"/clients", []downstream.Status{}},
	{"/clients?gone=true", []downstream.Gone{}},
	{"/status", admin.Status{}},
	{"/rejections", []admin.Rejection{}},
	{"/changes", admin.Changes{}},
	{"/reach", admin.Reach{}},
	{"/why", []admin.Why{}},
	{"/nodes", admin.Recorded{}},
	{"/upstreams", []admin.Upstream{}},
	{"/scopes", admin.Scopes{}},
	{"/resources", []admin.Resource{}},
	{"/held", admin.HeldPage{}},
	{"/generations", []admin.Generations{}},
	{"/passthrough", admin.Passthrough{}},
	{"POST", admin.Command{}},
	{"POST ->", admin.Done{}},
}

// Programs read these pages. A key may be added; one that goes or means something else breaks them.
func TestContract(t *testing.T) {
	var b strings.Builder
	for _, p := range pages {
		for _, line := range keys(reflect.TypeOf(p.v), "", nil) {
			fmt.Fprintf(&b, "%s %s\n", p.path, line)
		}
	}
	const file = "testdata/contract.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(b.String(), "\n")
	listed := strings.Split(string(want), "\n")
	for _, line := range listed {
		if !slices.Contains(got, line) {
			t.Errorf("the JSON has no %q any more", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(listed, line) {
			t.Errorf("the JSON has %q, and %s does not: run the test with -update", line, file)
		}
	}
}

// keys lists the paths of the JSON of a type, each with the form of its value.
func keys(of reflect.Type, path string, above []reflect.Type) []string {
	switch {
	case of == reflect.TypeFor[time.Time]():
		return []string{path + " time"}
	case of == reflect.TypeFor[json.RawMessage]():
		return []string{path + " any"}
	case slices.Contains(above, of):
		return []string{path + " …"}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return keys(of.Elem(), path, above)
	case reflect.Slice, reflect.Array:
		return keys(of.Elem(), path+"[]", above)
	case reflect.Map:
		return keys(of.Elem(), path+".*", above)
	case reflect.Struct:
		var all []string
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported() && !f.Anonymous:
			case f.Anonymous && name == "":
				all = append(all, keys(f.Type, path, append(above, of))...)
			case name == "":
				all = append(all, path+"."+f.Name+" WITHOUT A NAME IN JSON")
			default:
				all = append(all, keys(f.Type, path+"."+name, append(above, of))...)
			}
		}
		return all
	}
	return []string{path + " " + of.Kind().String()}
}
