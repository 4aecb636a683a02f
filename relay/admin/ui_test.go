package admin_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// The page for browsers loads nothing from elsewhere, and no script or style that stands in it.
func TestUI_ACC7(t *testing.T) {
	mux := http.NewServeMux()
	p := &admin.Pages{State: state{}, Commands: state{}}
	p.Handle(mux)
	for path, contentType := range map[string]string{"/ui/": "text/html", "/ui/app.js": "text/javascript", "/ui/style.css": "text/css"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		policy := w.Header().Get("Content-Security-Policy")
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), contentType) {
			t.Errorf("%s: %d, %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		body := w.Body.String()
		for _, not := range []string{"innerHTML", "insertAdjacentHTML", "document.write", "eval(", "src=\"http", "href=\"http", "<style", "style="} {
			if strings.Contains(body, not) {
				t.Errorf("%s has %q", path, not)
			}
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/../clients", nil))
	if w.Code == http.StatusOK {
		t.Errorf("a path out of the folder: %d", w.Code)
	}
}

// seen is a relay without rules.
type seen struct{ state }

func (seen) Scopes(admin.ScopeFilter) *admin.Scopes { return &admin.Scopes{Result: &sharing.Result{}} }

// Those who follow the events get the status at once.
func TestEvents(t *testing.T) {
	mux := http.NewServeMux()
	p := &admin.Pages{State: seen{}, Commands: state{}}
	p.Handle(mux)
	s := httptest.NewServer(mux)
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second shares the status of the first
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		var status admin.Status
		if err != nil || json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &status) != nil || status.Clients != 2 {
			t.Errorf("the first event is %q, %v", line, err)
		}
		if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("content type %q", got)
		}
		_ = resp.Body.Close()
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events?every=1s", nil))
	if w.Code != http.StatusBadRequest {
		t.Errorf("a parameter that there is not: %d", w.Code)
	}
}
