package relay

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// What is known of whether a control plane can be reached outlives a reload that changes
// how it is reached, and nothing is known of files.
func TestPlane_UPS2(t *testing.T) {
	servers := config.DefaultUpstream()
	servers.Name, servers.Endpoints = "plane", [][]string{{"127.0.0.1:1"}}
	p, err := new(Relay).newPlane(servers, nil, upstream.NopObserver{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.upstream.Close()
	if p.outages == nil || p.outage() != (upstream.Outage{}) {
		t.Errorf("outage %+v", p.outage())
	}
	moved, polled, files := servers, servers, servers
	moved.Endpoints, polled.APIType, files.Path = [][]string{{"127.0.0.1:2"}}, config.REST, "/x"
	for name, tt := range map[string]struct {
		next config.Upstream
		want bool
	}{"other endpoints": {moved, true}, "another variant": {polled, false}, "files": {files, false}} {
		if got := p.succeeds(&tt.next); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	next, err := new(Relay).newPlane(moved, p.outages, upstream.NopObserver{})
	if err != nil {
		t.Fatal(err)
	}
	defer next.upstream.Close()
	if next.outages != p.outages {
		t.Error("other outages after a reload")
	}
	if (&plane{}).outage() != (upstream.Outage{}) {
		t.Error("a plane without servers is away")
	}
}

// Wherever the relay says that a control plane does not answer, it says of each endpoint why.
func TestCauses_ABS2(t *testing.T) {
	u := upstreamAt("a", "127.0.0.1:1")
	u.Endpoints = append(u.Endpoints, []string{"127.0.0.1:2"})
	r := run(t, configOf(u))
	const both = "127.0.0.1:1: connection refused; 127.0.0.1:2: connection refused"
	for !strings.Contains(r.page("/readyz"), both) { // the first attempt may not be over
		runtime.Gosched()
	}
	r.shows("/readyz", "not reached yet: a ("+both+") since ")
	r.shows("/upstreams", `"endpoint": "127.0.0.1:1",`, `"endpoint": "127.0.0.1:2",`, `"cause": "connection refused"`)
	for !strings.Contains(r.log.String(), both) { // it comes after the page has it
		runtime.Gosched()
	}
	if log := r.log.String(); strings.Count(log, both) != 1 {
		t.Errorf("the log has\n%s", log)
	}
	causes := func() []upstream.Cause {
		from, _ := r.relay.hub.reachable(r.relay.hub.present()["a"])
		return from.Causes()
	}
	p, now := &plane{name: "a", outages: new(upstream.Outages)}, time.Now()
	p.reaching.try(&upstream.UnansweredError{Upstream: "a", Causes: causes()}, now.Add(-time.Minute))
	p.reaching.try(&upstream.UnansweredError{Upstream: "a", Causes: causes()}, now)
	if got := p.unreachable(time.Second, now, causes); got != `upstream "a" is unreachable: connection refused` {
		t.Errorf("clients are told %q", got)
	}
}

// A session that is not let in is told the server's words, and others only what it was.
func TestCauses_ABS2_ACC6(t *testing.T) {
	denied := &upstream.ConnectionError{Endpoint: "a:1", Reason: upstream.ReasonDenied, Err: status.Error(codes.Unauthenticated, "token of web")}
	if got := told("a", denied.Cause().Unplaced().String()); got != `upstream "a" is unreachable: UNAUTHENTICATED: token of web` {
		t.Errorf("its own clients are told %q", got)
	}
	for _, causes := range [][]upstream.Cause{nil, {denied.Cause()}} {
		if got := causeOf("a", denied, causes); got != `upstream "a" is unreachable: UNAUTHENTICATED` {
			t.Errorf("others are told %q", got)
		}
	}
	unanswered := &upstream.UnansweredError{Upstream: "a", Causes: []upstream.Cause{{Endpoint: "10.0.0.1:1", Text: "timeout"}, {Endpoint: "10.0.0.2:1", Text: "timeout"}}}
	if got := causeOf("a", unanswered, nil); got != `upstream "a" is unreachable: timeout` {
		t.Errorf("ACC-6: clients are told %q", got)
	}
	if got := causeOf("a", errors.New("dial 10.0.0.1:1"), nil); got != `upstream "a" is unreachable: no server answers` {
		t.Errorf("ACC-6: clients are told %q", got)
	}
}
