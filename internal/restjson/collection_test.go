package restjson

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const collectionType = resource.ClusterType + "Collection"

// LIST-1: list collections are polled where their members are, by clients and from
// servers.
func TestLIST1_polls(t *testing.T) {
	r := post(`{"type_url":"` + collectionType + `","resource_names":["xdstp://a/envoy.config.cluster.v3.ClusterCollection/d"]}`)
	got, err := decodeRequest(httptest.NewRecorder(), r, 1<<20)
	if err != nil || got.GetTypeUrl() != collectionType {
		t.Fatalf("got %v, %v", got, err)
	}
	poll := Poll{TypeURL: collectionType, ResourceNames: got.GetResourceNames()}
	asked, err := poll.NewRequest(t.Context(), &url.URL{Scheme: "http", Host: "a"})
	if err != nil || asked.URL.Path != clustersPath {
		t.Fatalf("asked at %v, %v", asked, err)
	}
	again, err := decodeRequest(httptest.NewRecorder(), asked, 1<<20)
	if err != nil || again.GetTypeUrl() != collectionType {
		t.Errorf("asked for %v, %v", again, err)
	}
	for _, other := range []string{resource.ListenerType + "Collection", collectionType + "Collection"} {
		_, err := decodeRequest(httptest.NewRecorder(), post(`{"type_url":"`+other+`"}`), 1<<20)
		if refused, ok := errors.AsType[*StatusError](err); !ok || refused.Code != http.StatusBadRequest {
			t.Errorf("VAR-10: asked for %q: %v", other, err)
		}
	}
}

// LIST-1, LOC-1: a response holds list collections and redirects, which must be wrapped;
// one that is not costs nothing but itself.
func TestLIST1_LOC1_responses(t *testing.T) {
	const (
		collection = `{"@type":"` + collectionType + `","entries":{"inline_entry":{"name":"e","resource":{"@type":"` + resource.ClusterType + `","name":"c"}}}}`
		redirect   = `{"@type":"` + wire.RedirectTypeURL + `","id":"x","resource_type":"envoy.config.cluster.v3.Cluster"}`
		wrapped    = `{"@type":"` + wire.ResourceTypeURL + `","name":"w","version":"7","resource":`
	)
	body := `{"version_info":"1","resources":[{"@type":"` + resource.ClusterType + `","name":"a"},` + collection + `,` +
		wrapped + collection + `},` + redirect + `,` + strings.Replace(wrapped, `"w"`, `"r"`, 1) + redirect + `}]}`
	r, err := decodeResponse([]byte(body), resource.ClusterType)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, res := range r.Resources {
		got = append(got, res.Name+" "+res.TypeURL())
	}
	if want := "a " + resource.ClusterType + ",w " + collectionType + ",r " + wire.RedirectTypeURL; strings.Join(got, ",") != want {
		t.Errorf("resources %q, want %q", got, want)
	}
	if len(r.Unnamed) != 2 {
		t.Fatalf("faults %v", r.Unnamed)
	}
	for i, want := range []string{"resources[1]: a payload of this type has no name", "resources[3]: a payload of this type has no name"} {
		if err := r.Unnamed[i]; !strings.HasPrefix(err.Error(), want) || !errors.Is(err, wire.ErrUnnamed) {
			t.Errorf("fault %v, want %s", err, want)
		}
	}
	if _, err := decodeResponse([]byte(body), resource.ListenerType); err == nil || !strings.Contains(err.Error(), "resources[0]: its type is") {
		t.Errorf("ACK-6: as listeners: %v", err)
	}
	r, err = decodeResponse([]byte(`{"resources":[`+strings.Repeat(redirect+",", 100)+redirect+`]}`), resource.ClusterType)
	if err != nil || len(r.Unnamed) != maxUnnamed {
		t.Errorf("%v, %v, want %d faults", r, err, maxUnnamed)
	}
}
