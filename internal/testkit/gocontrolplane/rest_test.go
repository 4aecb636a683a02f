package gocontrolplane

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// post asks a control plane over REST.
func post(t *testing.T, c *ControlPlane, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	c.REST().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

func TestREST_VAR5(t *testing.T) {
	const clusters = "/v3/discovery:clusters"
	c := NewPlainSnapshot()
	if code, text := post(t, c, clusters, "{}"); code != http.StatusServiceUnavailable || !strings.Contains(text, "is stopped") {
		t.Errorf("before the start: %d %s", code, text)
	}
	started(t, c)
	set(t, c, "a", cluster("a", "1"))
	set(t, c, "b", cluster("b", "1"))
	code, text := post(t, c, clusters, `{"resource_names": ["a"]}`)
	var resp discoveryv3.DiscoveryResponse
	if err := protojson.Unmarshal([]byte(text), &resp); err != nil || code != http.StatusOK || len(resp.Resources) != 1 || resp.TypeUrl != cds {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	for _, tt := range []struct {
		path, body string
		code       int
	}{
		{clusters, `{"version_info": "` + resp.VersionInfo + `"}`, http.StatusNotModified},
		// What a name that is new to the client gets.
		{clusters, `{"version_info": "` + resp.VersionInfo + `", "resource_names": ["b"]}`, http.StatusNotModified},
		{clusters, "{", http.StatusBadRequest},
		{"/v3/discovery:virtual-hosts", "{}", http.StatusNotFound},
	} {
		if code, text := post(t, c, tt.path, tt.body); code != tt.code {
			t.Errorf("%s %s: %d %s, want %d", tt.path, tt.body, code, text, tt.code)
		}
	}
	if s := c.Stats(); s.Fetches[cds] != 3 || s.Fetched[cds] != 1 || s.Opened != 0 {
		t.Errorf("counted %+v", s)
	}
	if code, text := post(t, started(t, New()), clusters, "{}"); code != http.StatusInternalServerError {
		t.Errorf("a linear cache: %d %s", code, text)
	}
	c.Stop()
	if code, _ := post(t, c, clusters, "{}"); code != http.StatusServiceUnavailable {
		t.Errorf("stopped: %d", code)
	}
}
