package upstream

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A response on its way has the server ignore the requests that it reads then. What was left out in one
// of them and asked for in the next was wanted all the time for that server, which does not send it again: so the
// answer leaves it out once more (STR-4, TTL-5).
func TestAskedAnewAcrossAResponse_STR4_TTL5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		store := newStore(sub(endpoints, "x", "y"))
		run(t, newUpstream(t, n.speaking(AggregatedGRPC, "a")), store, nil)
		as := srv.accept(stateADS)
		as.expect("[x y] v= n=")
		as.state(endpoints, "1", "n1", "x", "y")
		as.expect("[x y] v=1 n=n1")

		both := []wire.Subscription{sub(endpoints, "x", "y")}
		store.want(0, both, unsub(endpoints, "x"), sub(endpoints, "x"))
		as.expect("[y] v=1 n=n1")
		as.expect("[x y] v=1 n=n1")
		as.state(endpoints, "2", "n2", "y")
		as.expect("[y] v=2 n=n2")
		as.expect("[x y] v=2 n=n2")
		as.state(endpoints, "3", "n3", "x")
		as.expect("[x y] v=3 n=n3")
		as.state(endpoints, "4", "n4", "y")
		as.expect("[x y] v=4 n=n4")

		// The same if it is asked for after a response that the server sent before.
		store.want(0, []wire.Subscription{sub(endpoints, "y")}, unsub(endpoints, "x"))
		as.expect("[y] v=4 n=n4")
		as.state(endpoints, "5", "n5", "y")
		as.expect("[y] v=5 n=n5")
		store.want(0, both, sub(endpoints, "x"))
		as.expect("[x y] v=5 n=n5")
		for _, nonce := range []string{"n6", "n7", "n8"} {
			as.state(endpoints, "6", nonce, "y")
			as.expect("[y] v=6 n=" + nonce)
			as.expect("[x y] v=6 n=" + nonce)
		}
		as.state(endpoints, "6", "n9", "y") // there is no x
		as.expect("[x y] v=6 n=n9")
		synctest.Wait()
		as.silent()
	})
}

// A response of a full-state type holds all names that the server knows to be wanted. One without a name would say that
// it has gone (RES-2).
func TestAskedAnewAcrossAFullList_STR4_RES2(t *testing.T) {
	d := newStateDialect(false)
	expect := func(got []request, want ...string) {
		t.Helper()
		if s := said(got); len(s) != len(want) {
			t.Fatalf("said %q, want %q", s, want)
		}
		for i, s := range said(got) {
			if s != want[i] {
				t.Errorf("said %q, want %q", s, want[i])
			}
		}
	}
	for _, typeURL := range []string{clusters, endpoints} {
		expect(d.subscribe(sub(typeURL, "x", "y"), 0, 1<<20), "[x y] v= n=")
		expect([]request{d.answer(envelope{typeURL: typeURL, nonce: "n1", version: "1"}, nil)}, "[x y] v=1 n=n1")
		expect(d.subscribe(unsub(typeURL, "x"), 0, 1<<20), "[y] v=1 n=n1")
		expect(d.subscribe(sub(typeURL, "x"), 0, 1<<20), "[x y] v=1 n=n1")
	}
	expect([]request{d.answer(envelope{typeURL: clusters, nonce: "n2", version: "2"}, nil)}, "[x y] v=2 n=n2")
	expect(d.behind(clusters))
	expect([]request{d.answer(envelope{typeURL: endpoints, nonce: "n2", version: "2"}, nil)}, "[y] v=2 n=n2")
	expect(d.behind(endpoints), "[x y] v=2 n=n2")
	expect(d.behind(endpoints))
	expect(d.subscribe(unsub(endpoints, "x"), 0, 1<<20), "[y] v=2 n=n2")
	expect([]request{d.answer(envelope{typeURL: endpoints, nonce: "n3", version: "3"}, nil)}, "[y] v=3 n=n3")
	expect(d.behind(endpoints))
}

// A server that answers nothing while names come and go has the relay remember few of them (STR-4, LIM-3).
func TestAnewNamesAreFew_LIM3(t *testing.T) {
	var a anewNames
	held := func() (bytes int) {
		for _, names := range []map[string]struct{}{a.left, a.older} {
			for name := range names {
				bytes += len(name)
			}
		}
		return bytes
	}
	for i := range 10_000 {
		a.leave(fmt.Sprintf("%01000d", i))
	}
	if bytes := held(); bytes > 2*(maxLeft+1000) {
		t.Errorf("%d bytes of names are remembered", bytes)
	}
	last := fmt.Sprintf("%01000d", 9_999)
	a.want(last, false)
	if got := a.answered([]string{"a", last}); len(got) != 1 || a.bytes != 0 || held() == 0 {
		t.Errorf("the last name that was left out is not asked for anew: %d bytes, answered with %d names", a.bytes, len(got))
	}
	for range 10_000 {
		a.leave(last)
		a.want(last, false)
	}
	if a.bytes != 0 {
		t.Errorf("%d bytes counted for no name", a.bytes)
	}
}
