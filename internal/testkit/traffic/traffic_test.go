package traffic_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGet looks at each way in which a request ends.
func TestGet(t *testing.T) {
	backend := traffic.Backend(t, "a")
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "reset.test" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			return
		}
		http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
	}))
	defer broken.Close()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := lis.Addr().String()
	_ = lis.Close()
	at := strings.TrimPrefix(broken.URL, "http://")
	for name, c := range map[string]struct{ addr, host, want string }{
		"answered": {backend, "", `200 "a"`},
		"503":      {at, "", "503 no healthy upstream"},
		"reset":    {at, "reset.test", "reset"},
		"refused":  {nobody, "", "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			o := traffic.NewClient().Get(t.Context(), c.addr, c.host, "/")
			if got := o.String(); !strings.HasSuffix(got, c.want) {
				t.Errorf("the outcome is %q, want %q", got, c.want)
			}
			if o.OK("a") != (name == "answered") {
				t.Errorf("OK is %t", o.OK("a"))
			}
		})
	}
}

// TestLoad changes what answers while the load runs.
func TestLoad(t *testing.T) {
	fail := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-fail:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte("a"))
		}
	}))
	defer server.Close()
	l := traffic.StartLoad(t, strings.TrimPrefix(server.URL, "http://"), "", time.Millisecond)
	begin := time.Now()
	if _, ok := wait.Until(10*time.Second, func() bool { return l.AnsweredSince(begin, "a") }); !ok {
		t.Fatal("no request was answered")
	}
	if f := l.Failures(); len(f) > 0 {
		t.Errorf("failed before anything was wrong: %s", traffic.Summary(f))
	}
	close(fail)
	if _, ok := wait.Until(10*time.Second, func() bool { return len(l.Failures()) > 0 }); !ok {
		t.Fatal("no request failed")
	}
	l.Stop()
	if l.Sent() != l.Done() {
		t.Errorf("%d requests were sent, %d are done", l.Sent(), l.Done())
	}
	if got := traffic.Summary(l.Failures()); !strings.Contains(got, "503") {
		t.Errorf("the summary is %q", got)
	}
}
