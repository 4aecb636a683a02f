package gocontrolplane

import (
	"net/http"

	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
)

// REST gives a handler with go-control-plane's REST gateway (VAR-5). It answers
// for the control plane as it is at the time of a request, and with status 503
// while that is stopped; the server around it is the caller's.
func (c *ControlPlane) REST() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c.mu.Lock()
		server := c.fetch
		c.mu.Unlock()
		if server == nil {
			http.Error(w, "the control plane is stopped", http.StatusServiceUnavailable)
			return
		}
		gateway := serverv3.HTTPGateway{Server: server}
		body, code, err := gateway.ServeHTTP(req)
		if err != nil {
			http.Error(w, err.Error(), code)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		// A client that has gone needs no answer.
		_, _ = w.Write(body) //nolint:gosec // JSON, and said to be that
	})
}
