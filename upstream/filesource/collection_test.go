package filesource

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// LIST-1, LOC-1: files hold list collections, under their own type or that of their
// members, and redirects; all of them wrapped, for nothing else names them.
func TestLIST1_LOC1_files(t *testing.T) {
	const (
		collectionType = clusterType + "Collection"
		collection     = `{"@type":"` + collectionType + `","entries":{"locator":{"authority":"a","resource_type":"envoy.config.cluster.v3.Cluster","id":"x"}}}`
		redirect       = `{"@type":"` + wire.RedirectTypeURL + `","id":"x","resource_type":"envoy.config.cluster.v3.Cluster"}`
		cluster        = `{"@type":"` + clusterType + `","name":"c"}`
		why            = "value: a payload of this type has no name of its own: it must be wrapped in envoy.service.discovery.v3.Resource with a name"
	)
	wrap := func(name, payload string) string {
		return `{"@type":"` + wire.ResourceTypeURL + `","name":"` + name + `","resource":` + payload + `}`
	}
	for _, tc := range []struct {
		name, typeURL string
		resources     []string
		want, reason  string
	}{
		{"LIST-1 under its own type", collectionType, []string{wrap("x", collection)}, "x " + collectionType, ""},
		{"LIST-1 a type that nobody says", "", []string{wrap("x", collection)}, "x " + collectionType, ""},
		{"LIST-1 under the type of its members", clusterType, []string{cluster, wrap("x", collection)}, "c " + clusterType + ",x " + collectionType, ""},
		{"LOC-1 redirect", clusterType, []string{wrap("r", redirect), cluster}, "r " + wire.RedirectTypeURL + ",c " + clusterType, ""},
		{"LIST-1 bare", clusterType, []string{cluster, collection}, "", "resources[1]: " + why},
		{"LOC-1 bare redirect", clusterType, []string{redirect}, "", "resources[0]: " + why},
		{"LIST-1 of another type", typePrefix + "envoy.config.listener.v3.Listener", []string{wrap("x", collection)}, "", "resources[0]: expected the type"},
		{"LOC-1 a redirect of a type that nobody says", "", []string{wrap("r", redirect)}, "", "resources[0]: a redirect, which does not tell of what type: expected a type_url"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := `{"resources":[` + strings.Join(tc.resources, ",") + `]}`
			if tc.typeURL != "" {
				text = strings.Replace(text, "{", `{"type_url":"`+tc.typeURL+`",`, 1)
			}
			c, bad := parse(formatOf("x.json"), []byte(text), DefaultMaxSize)
			if tc.reason != "" {
				if bad == nil || !strings.Contains(bad.Error(), tc.reason) {
					t.Errorf("error %v, want %s", bad, tc.reason)
				}
				return
			}
			if bad != nil {
				t.Fatal(bad)
			}
			var got []string
			for _, r := range c.resources {
				got = append(got, r.Name+" "+r.TypeURL())
			}
			if strings.Join(got, ",") != tc.want {
				t.Errorf("resources %q, want %q", got, tc.want)
			}
		})
	}
}
