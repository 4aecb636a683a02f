package relay

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	testplane "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// A type of types.secret is shown and stored as little as Envoy's secrets are, also after a reload that adds it (ACC-7).
func TestSecretTypes_ACC7(t *testing.T) {
	const hush = "hush-hush"
	for _, later := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			p := testplane.New(testplane.Behaviour{})
			p.Apply(clustersOf(t, contents{"a": hush}))
			cfg := new(config.Config)
			secret := func(c *config.Config) {
				c.Types.Secret = []string{"cds"}
				c.Access.Rules = []config.AccessRule{{Name: "all", Match: "true", Effect: config.Allow, Secrets: true}}
			}
			b := runBubbledBefore(t, p, func(c *config.Config) {
				c.Cache.Dir = dir
				if !later {
					secret(c)
				}
				cfg = c
			}, func(*Relay) {})
			if later {
				next := *cfg
				secret(&next)
				if err := b.relay.Reload(&next); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			conn := b.dial()
			defer conn.Close()
			b.subscriber(conn, "n")
			<-time.After(3 * time.Second)
			p.Apply(clustersOf(t, contents{"a": hush + "2"}))
			<-time.After(2 * time.Minute) // snapshots are written
			synctest.Wait()
			for _, page := range []string{"/resources?payload=true", "/changes?diff=true"} {
				w := httptest.NewRecorder()
				adminPort{relay: b.relay}.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody))
				if text := w.Body.String(); strings.Contains(text, "alt_stat_name") || strings.Contains(page, "resources") && !strings.Contains(text, "[redacted]") {
					t.Errorf("ACC-7: %s shows %s", page, text)
				}
			}
			if _, err := b.relay.operator().Hold(&admin.Command{Types: []string{"cds"}}); err == nil {
				t.Error("ACC-7: a secret can be held")
			}
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%v, %v", files, err)
			}
			for _, file := range files {
				if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), hush) {
					t.Errorf("ACC-7: %s holds a secret, or: %v", file, err)
				}
			}
		})
	}
}
