package downstream

import (
	"net/http"
	"testing"
	"testing/synctest"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// FuzzPoll sends any body to two paths. It must never panic, and be answered with a
// sound response to what was asked, with 304, or with an error that says why
// (REST-2).
func FuzzPoll(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `null`, `[]`, `{"resource_names":["a","a","","*"]}`, `{"resourceNames":["xdstp:","` + ofA("x") + `","` + ofA("*") + `"]}`,
		`{"version_info":"1","response_nonce":"2","error_detail":{"code":3,"message":"no"}}`,
		`{"node":{"id":"n","client_features":["` + wire.FeatureWrapping + `"]},"resource_names":["a"]}`,
		`{"type_url":"` + endpointType + `"}`, `{"node":{"metadata":{"a":[1,null,"x"]}}}`, "\xff", `{"resource_names":"a"}`,
	} {
		f.Add(false, body)
		f.Add(true, body)
	}
	f.Fuzz(func(t *testing.T, endpoints bool, body string) {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, func(c *Config) { c.RESTWait = restWait; c.PerClient.Subscriptions = 100 })
			defer h.close()
			h.opaque.real(clusterType, "1", "a", "b")
			h.opaque.real(endpointType, "1", "a")
			h.a.real(clusterType, "1", ofA("x"))
			p := h.poller(clusterPath)
			if endpoints {
				p.path = endpointPath
			}
			p.post([]byte(body))
			h.advance(restWait)
			<-p.done
			checkAnswer(t, p)
		})
	})
}

func checkAnswer(t *testing.T, p *restPoller) {
	t.Helper()
	code, body := p.answer.Code, p.answer.Body.Bytes()
	switch code {
	case http.StatusNotModified:
		if len(body) > 0 {
			t.Errorf("304 with %q", body)
		}
	case http.StatusOK:
		r := new(discovery.DiscoveryResponse)
		if err := protojson.Unmarshal(body, r); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if r.GetVersionInfo() == "" || r.GetNonce() == "" {
			t.Errorf("version %q, nonce %q", r.GetVersionInfo(), r.GetNonce())
		}
		seen := make(map[string]bool)
		for _, packed := range r.GetResources() {
			if key := string(packed.GetValue()); seen[key] {
				t.Errorf("RES-4: %q twice", packed)
			} else {
				seen[key] = true
			}
		}
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		s := new(status.Status)
		if err := protojson.Unmarshal(body, s); err != nil || s.GetMessage() == "" {
			t.Errorf("%d without a reason: %q", code, body)
		}
	default:
		t.Errorf("%d %q", code, body)
	}
}
