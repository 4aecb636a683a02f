package relay

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// A page whose name was pointed at the relay's address gets nothing from the admin port.
func TestAdminHosts_ACC7(t *testing.T) {
	for _, tt := range []struct {
		host  string
		hosts []string
		want  int
	}{
		{"127.0.0.1:19100", nil, http.StatusOK},
		{"10.1.2.3:19100", nil, http.StatusOK}, // a probe, or Prometheus: by address
		{"[::1]:19100", nil, http.StatusOK},
		{"::1", nil, http.StatusOK},
		{"localhost:19100", nil, http.StatusOK},
		{"LOCALHOST.", nil, http.StatusOK},
		{"relay.localhost", nil, http.StatusOK},
		{"own.example.com:19100", nil, http.StatusOK},
		{"", nil, http.StatusOK},
		{"evil.example.com:19100", nil, http.StatusMisdirectedRequest},
		{"localhost.evil.example.com", nil, http.StatusMisdirectedRequest},
		{"127.0.0.1.evil.example.com", nil, http.StatusMisdirectedRequest},
		{"other.example.com", []string{"Other.example.com."}, http.StatusOK},
		{"a.relays.svc:19100", []string{"*.relays.svc"}, http.StatusOK},
		{"relays.svc", []string{"*.relays.svc"}, http.StatusMisdirectedRequest},
		{".relays.svc", []string{"*.relays.svc"}, http.StatusMisdirectedRequest},
		{"evilrelays.svc", []string{"*.relays.svc"}, http.StatusMisdirectedRequest},
	} {
		t.Run(tt.host, func(t *testing.T) {
			r := &Relay{refusals: newRefusals(t, slog.New(slog.DiscardHandler))}
			r.now.Store(&inForce{config: &config.Config{Admin: config.Admin{Listen: "own.example.com:19100", Hosts: tt.hosts}}})
			reached := false
			door := adminPort{relay: r}.door(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
			req := httptest.NewRequest(http.MethodGet, "/clients", nil)
			req.Host = tt.host
			w := httptest.NewRecorder()
			door.ServeHTTP(w, req)
			if w.Code != tt.want || reached != (tt.want == http.StatusOK) {
				t.Errorf("answered %d (%s), the page was reached: %t", w.Code, w.Body, reached)
			}
			if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("X-Content-Type-Options is %q", got)
			}
		})
	}
}

// A page of another site cannot have the admin port do anything, not even look, and no browser keeps or frames what it shows.
func TestAdminSites_ACC7(t *testing.T) {
	r := &Relay{refusals: newRefusals(t, slog.New(slog.DiscardHandler))}
	r.now.Store(&inForce{config: &config.Config{}})
	for _, tt := range []struct {
		path, site string
		want       int
	}{
		{"/check", "cross-site", http.StatusForbidden},
		{"/clients", "same-site", http.StatusForbidden},
		{"/metrics", "cross-site", http.StatusForbidden},
		{"/check", "same-origin", http.StatusOK},
		{"/check", "none", http.StatusOK}, // from the address bar
		{"/check", "", http.StatusOK},     // no browser
		{"/livez", "cross-site", http.StatusOK},
	} {
		reached := false
		page := adminPort{relay: r}.door(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
		req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+tt.path, nil)
		req.Header.Set("Sec-Fetch-Site", tt.site)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, req)
		if w.Code != tt.want || reached != (tt.want == http.StatusOK) {
			t.Errorf("%s from %q: %d, the page was reached: %t", tt.path, tt.site, w.Code, reached)
		}
		for name, value := range map[string]string{"Cache-Control": "no-store", "X-Frame-Options": "DENY", "Content-Security-Policy": "frame-ancestors 'none'"} {
			if got := w.Header().Get(name); !strings.Contains(got, value) {
				t.Errorf("%s: %s is %q", tt.path, name, got)
			}
		}
	}
}
