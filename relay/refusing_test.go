package relay

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
)

// A reload that would refuse more than a tenth of the connected clients changes nothing, and says whom it would refuse. One that
// is taken ends those at once that it refuses, and nobody else (ACC-5, AGG-2).
func TestReloadRefuses_ACC5_AGG2(t *testing.T) {
	refuse := func(name, require string) func(*config.Config) {
		return func(c *config.Config) { c.Access.Verify = []config.VerifyRule{{Name: name, Require: require}} }
	}
	for text, tt := range map[string]struct {
		change func(*config.Config)
		rule   string
		ends   []int
		taken  bool
		code   codes.Code
	}{
		"one of ten": {refuse("not-3", `node.id != "n-3"`), "", []int{3}, true, codes.PermissionDenied},
		"two of ten": {refuse("not-3-4", `!(node.id in ["n-3", "n-4"])`), "not-3-4", []int{3, 4}, false, codes.PermissionDenied},
		"all, by aggregation": {
			func(c *config.Config) { c.Aggregation.Otherwise = config.Refuse }, "otherwise", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, false, codes.Unavailable,
		},
	} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cfg *config.Config
				b := runBubbled(t, func(c *config.Config) { cfg = c })
				synctest.Wait()
				conn := b.dial()
				defer conn.Close()
				var ends []chan error
				for i := range 10 {
					ends = append(ends, b.subscriber(conn, fmt.Sprint("n-", i)))
					b.subscriber(conn, fmt.Sprint("n-", i)) // a client counts once
				}
				<-time.After(5 * time.Second)
				synctest.Wait()
				next := *cfg
				tt.change(&next)
				err := b.relay.Reload(&next)
				if (err == nil) != tt.taken {
					t.Fatalf("ACC-5: %v", err)
				}
				if !tt.taken {
					synctest.Wait()
					refuses, is := errors.AsType[*RefusesError](err)
					want := fmt.Sprintf("it would refuse %d of 10 connected clients, more than 10 %%: n-%d (rule %s), n-", len(tt.ends), tt.ends[0], tt.rule)
					if !is || refuses.Refused != len(tt.ends) || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "; xdsrelay reload --yes takes it all the same") {
						t.Errorf("ACC-5: %v, want %s", err, want)
					}
					for i, ended := range ends {
						if len(ended) > 0 {
							t.Errorf("ACC-5: client %d ended by a reload that was not taken: %v", i, <-ended)
						}
					}
					for page, want := range map[string]string{"/metrics": "xdsrelay_config_last_reload_successful 0", "/status": "it would refuse"} {
						w := httptest.NewRecorder()
						adminPort{relay: b.relay}.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody))
						if !strings.Contains(w.Body.String(), want) {
							t.Errorf("OPS-6: %s does not say %q:\n%s", page, want, w.Body)
						}
					}
					if err := b.relay.ReloadAnyway(&next); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(100 * time.Millisecond)
				synctest.Wait()
				for _, i := range tt.ends {
					if len(ends[i]) == 0 {
						t.Errorf("ACC-5: client %d is refused, and its stream goes on", i)
					} else if err := <-ends[i]; status.Code(err) != tt.code {
						t.Errorf("ACC-5: client %d ended with %v", i, err)
					}
				}
				for i, ended := range ends {
					if len(ended) > 0 {
						t.Errorf("ACC-5: client %d ended: %v", i, <-ended)
					}
				}
			})
		})
	}
}

// An operator's reload is the program's, with what the operator said of clients that it refuses (ACC-7).
func TestReloadCommand_ACC7(t *testing.T) {
	for body, want := range map[string]string{`{}`: "false", `{"yes":true}`: "true", `{"yes":1}`: ""} {
		asked := ""
		r, err := New(configOf(upstreamAt("plane", "127.0.0.1:1")), Options{Reload: func(anyway bool) error {
			if asked = fmt.Sprint(anyway); !anyway {
				return &RefusesError{Refused: 2, Clients: 3, Some: []string{"a"}}
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/reload", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		adminPort{relay: r}.handler().ServeHTTP(w, req)
		r.release()
		if asked != want || (w.Code == http.StatusOK) != (want == "true") || want == "false" && !strings.Contains(w.Body.String(), "it would refuse 2 of 3") {
			t.Errorf("ACC-7: %s: asked for %q, %d: %s", body, asked, w.Code, w.Body)
		}
	}
}

// What waits for a restart is not in force: the answer to the operator says so, and the change is one event (ACC-7).
func TestReloadWaits_ACC7(t *testing.T) {
	cfg := configOf(upstreamAt("plane", "127.0.0.1:1"))
	next := *cfg
	next.Admin.ProbesListen = "127.0.0.1:2"
	var r *Relay
	r, err := New(cfg, Options{Reload: func(bool) error { return r.Reload(&next) }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.release()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/reload", strings.NewReader("{}"))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	adminPort{relay: r}.handler().ServeHTTP(w, req)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "a changed key needs a restart: admin.probes_listen: ") {
		t.Errorf("ACC-7: %d: %s", w.Code, w.Body)
	}
	if all := r.events.Since(time.Time{}); len(all) != 1 {
		t.Errorf("ACC-7: %d events of one reload: %+v", len(all), all)
	}
}
