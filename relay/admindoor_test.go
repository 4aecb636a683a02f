package relay

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
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
			r := &Relay{door: newDoor(t, slog.New(slog.DiscardHandler))}
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
