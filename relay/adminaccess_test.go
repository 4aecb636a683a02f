package relay

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
)

// newRefusals makes a log of refusals that logs, and counts in metrics of its own.
func newRefusals(t *testing.T, log *slog.Logger) *refusals.Log {
	t.Helper()
	collectors, err := metrics.New(prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return refusals.New(log, collectors.Refusals())
}

// Where tokens are asked for nobody looks without one, and nobody changes anything with one for looking.
func TestAdminTokens_ACC7(t *testing.T) {
	const look, act, scrape = "s3cret-token-for-looking", "s3cret-token-for-acting", "s3cret-token-for-scraping"
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("prometheus read "+look+"\nann act "+act+"\nvm metrics "+scrape+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	to := slog.New(slog.NewTextHandler(&log, nil))
	tokens, err := credentials.OpenOperatorList(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	r := &Relay{log: to, admin: adminAccess{tokens: tokens}, refusals: newRefusals(t, to)}
	for _, tt := range []struct {
		method, path, authorization string
		want                        int
		operator                    string
	}{
		{"GET", "/clients", "", http.StatusUnauthorized, ""},
		{"GET", "/clients", "Bearer", http.StatusUnauthorized, ""},
		{"GET", "/clients", "Bearer " + look + "x", http.StatusUnauthorized, ""},
		{"GET", "/clients", "Basic " + look, http.StatusUnauthorized, ""},
		{"GET", "/clients", look, http.StatusUnauthorized, ""},
		{"GET", "/clients", "Bearer " + look, http.StatusOK, "prometheus"},
		{"GET", "/metrics", "bearer  " + look, http.StatusOK, "prometheus"},
		{"GET", "/debug/pprof/", "", http.StatusUnauthorized, ""},
		{"GET", "/nowhere", "", http.StatusUnauthorized, ""},
		{"POST", "/hold", "", http.StatusUnauthorized, ""},
		{"POST", "/hold", "Bearer " + look, http.StatusForbidden, ""},
		{"DELETE", "/clients", "Bearer " + look, http.StatusForbidden, ""},
		{"POST", "/hold", "Bearer " + act, http.StatusOK, "ann"},
		{"POST", "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus", "", http.StatusUnauthorized, ""},
		{"POST", "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus", "Bearer " + look, http.StatusOK, "prometheus"},
		{"GET", "/metrics", "Bearer " + scrape, http.StatusOK, "vm"},
		{"POST", "/metrics", "Bearer " + scrape, http.StatusForbidden, ""},
		{"GET", "/clients", "Bearer " + scrape, http.StatusForbidden, ""},
		{"POST", "/hold", "Bearer " + scrape, http.StatusForbidden, ""},
		{"GET", "/ui/app.js", "", http.StatusOK, ""},
		{"POST", "/ui/app.js", "", http.StatusUnauthorized, ""},
		{"GET", "/events", "", http.StatusUnauthorized, ""},
		{"GET", "/held", "Bearer " + act, http.StatusOK, "ann"},
		{"GET", "/livez", "", http.StatusOK, ""},
		{"GET", "/readyz", "", http.StatusOK, ""},
		{"HEAD", "/livez", "", http.StatusOK, ""},
		{"POST", "/livez", "", http.StatusUnauthorized, ""},
		{"GET", "/livez/../clients", "", http.StatusUnauthorized, ""},
	} {
		reached, operator := false, ""
		page := adminPort{relay: r}.admit(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { reached, operator = true, operatorOf(req) }))
		req := httptest.NewRequest(tt.method, tt.path, nil)
		if tt.authorization != "" {
			req.Header.Set("Authorization", tt.authorization)
		}
		w, took := httptest.NewRecorder(), time.Duration(0)
		synctest.Test(t, func(*testing.T) {
			began := time.Now()
			page.ServeHTTP(w, req)
			took = time.Since(began)
		})
		if wrong := tt.want == http.StatusUnauthorized && tt.authorization != ""; wrong != (took == wrongTokenPause) {
			t.Errorf("%s %s with %q took %v", tt.method, tt.path, tt.authorization, took)
		}
		if w.Code != tt.want || reached != (tt.want == http.StatusOK) || operator != tt.operator {
			t.Errorf("%s %s with %q: %d, the page was reached: %t, by %q", tt.method, tt.path, tt.authorization, w.Code, reached, operator)
		}
		if (tt.want == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s %s: WWW-Authenticate is %q", tt.method, tt.path, w.Header().Get("WWW-Authenticate"))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		page := adminPort{relay: r}.admitted(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ask := func(token string) (code int) {
			req, w := httptest.NewRequest(http.MethodGet, "/metrics", nil), httptest.NewRecorder()
			req.Header.Set("Authorization", "Bearer "+token)
			page.ServeHTTP(w, req)
			return w.Code
		}
		var wrong sync.WaitGroup
		for range 2 * runtime.GOMAXPROCS(0) {
			wrong.Go(func() { ask("none") })
		}
		synctest.Wait()
		began := time.Now()
		if code := ask(scrape); code != http.StatusOK || time.Since(began) > 0 {
			t.Errorf("beside wrong tokens one is answered %d after %v", code, time.Since(began))
		}
		wrong.Wait()
	})
	if got := log.String(); strings.Contains(got, "s3cret") || !strings.Contains(got, `operator=prometheus method=POST path=/hold`) {
		t.Errorf("logged %s", got)
	}
}
