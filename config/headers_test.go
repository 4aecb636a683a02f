package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const withMetadata = `upstreams:
  - name: a
    default: true
    endpoints: ["a:1"]
    metadata: {authorization: "Bearer s3cret", x-list: [s3cret, s3cret-2], key-bin: AAE=, key2-bin: AAE}
`

// Values of metadata may be credentials: nothing that shows a configuration shows them.
func TestHeaders_ACC6_OPS6(t *testing.T) {
	c := mustParse(t, withMetadata)
	want := map[string][]string{
		"authorization": {"Bearer s3cret"}, "x-list": {"s3cret", "s3cret-2"}, "key-bin": {"\x00\x01"}, "key2-bin": {"\x00\x01"},
	}
	if diff := cmp.Diff(want, c.Upstreams[0].Metadata.Wire()); diff != "" {
		t.Errorf("on the wire (-want +got):\n%s", diff)
	}
	yaml, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	other := mustParse(t, strings.ReplaceAll(withMetadata, "s3cret", "s3cret-new"))
	changes := Diff(c, other)
	if len(changes) != 1 || changes[0].Path != "upstreams[a].metadata" {
		t.Errorf("changes %v", changes)
	}
	for what, shown := range map[string]string{
		"YAML": string(yaml), "Diff": fmt.Sprint(changes), "added": fmt.Sprint(Diff(Default(), c)),
		"%v": fmt.Sprintf("%v", c.Upstreams), "%+v": fmt.Sprintf("%+v", c.Upstreams), "%#v": fmt.Sprintf("%#v", c.Upstreams),
	} {
		if strings.Contains(shown, "s3cret") || strings.Contains(shown, "AAE") {
			t.Errorf("%s shows a value: %s", what, shown)
		}
		if what != "added" && !strings.Contains(shown, "authorization") {
			t.Errorf("%s does not show the name: %s", what, shown)
		}
	}
}

// A value that stands where a mapping should is not quoted: it may be the secret.
func TestHeaders_OPS6_noMapping(t *testing.T) {
	for _, metadata := range []string{`"Bearer s3cret"`, `[s3cret]`, `s3cret`} {
		_, err := Parse("x.yaml", []byte(strings.Replace(withMetadata, `{authorization: "Bearer s3cret", x-list: [s3cret, s3cret-2], key-bin: AAE=, key2-bin: AAE}`, metadata, 1)))
		if err == nil || !strings.Contains(err.Error(), "expected a mapping") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", metadata, err)
		}
	}
}
