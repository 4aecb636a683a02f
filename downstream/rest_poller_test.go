package downstream

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

// eager is the owner of a poller. It rejects the version "bad".
type eager struct {
	responses chan string
	failures  chan error
}

var errBad = errors.New("that is bad")

func (e *eager) OnResponse(r *restjson.Response, _ []string) error {
	var all []string
	bad := false
	for _, res := range r.Resources {
		all = append(all, res.Name)
		bad = bad || strings.Contains(string(res.Raw()), "bad")
	}
	slices.Sort(all)
	e.responses <- strings.Join(all, " ")
	if bad {
		return errBad
	}
	return nil
}

func (*eager) OnUnchanged()        {}
func (e *eager) OnError(err error) { e.failures <- err }

func (e *eager) wants(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-e.responses:
		if got != want {
			t.Errorf("a response with %q, want %q", got, want)
		}
	case err := <-e.failures:
		t.Fatal(err)
	case <-time.After(30 * time.Second):
		t.Fatalf("no response, want %q", want)
	}
}

// The poller of the other side of a relay is sent each state once, also what it
// rejects, however often it asks.
func TestREST_Poller_REST1_ACK3(t *testing.T) {
	s := newRESTServer(t, func(c *Config, _ *httptest.Server) { c.RESTWait = 10 * time.Millisecond })
	s.Start()
	s.ready("a")
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	e := &eager{responses: make(chan string, 1000), failures: make(chan error, 1)}
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	p, err := restjson.NewPoller(restjson.PollerConfig{
		Client: &http.Client{Transport: transport}, Base: base, TypeURL: clusterType, Names: []string{"*"}, FullState: true,
		Interval: time.Millisecond, BackoffBase: time.Millisecond, BackoffMax: time.Millisecond, Handler: e,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx) }) // its error is the context's
	defer wg.Wait()
	defer cancel()

	polls := func(n int) {
		was := s.seen.count("closed")
		until(t, "more polls", func() bool { return s.seen.count("closed") >= was+n })
	}
	e.wants(t, "a")
	polls(5)
	s.plane.real(clusterType, "bad", "a", "b")
	e.wants(t, "a b")
	until(t, "the rejection", func() bool { return s.seen.count("nacked") == 1 })
	polls(5)
	s.plane.real(clusterType, "3", "a")
	s.plane.unset(clusterType, "b")
	for got := ""; got != "a"; {
		select {
		case got = <-e.responses:
		case <-time.After(30 * time.Second):
			t.Fatal("the last state does not come")
		}
	}
	polls(5)
	if n := s.seen.count("nacked"); len(e.responses) > 0 || n > 2 || s.seen.count("sent") > 4 {
		t.Errorf("%d responses left over, %d rejections, %d responses sent", len(e.responses), n, s.seen.count("sent"))
	}
}
