package upstream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// newDoubting is a session that has clusters a, b and c by name.
func newDoubting(t *testing.T, change func(*Config)) *checking {
	t.Helper()
	n := newNetwork(t)
	cfg := n.speaking(AggregatedGRPC, "a")
	cfg.Keepalive.Response = 8 * time.Second
	if change != nil {
		change(&cfg)
	}
	c := &checking{t: t, srv: n.serveAny("a"), store: newStore(sub(clusters, "a", "b", "c"), sub(endpoints, "x")), obs: &recorder{}}
	run(t, newUpstream(t, cfg), c.store, c.obs)
	c.main = c.srv.accept(stateADS)
	c.main.expect("[a b c] v= n=")
	c.main.expect("[x] v= n=")
	c.main.state(clusters, "1", "n1", "a", "b", "c")
	c.main.expect("[a b c] v=1 n=n1")
	return c
}

// list has the server send a list on the main stream, which is not answered yet.
func (c *checking) list(version string, names ...string) {
	c.t.Helper()
	c.main.state(clusters, version, "n"+version, names...)
	synctest.Wait()
}

// acknowledged takes the answer to a list, and checks what the Store took of it.
func (c *checking) acknowledged(version string, partial bool, names []string, removed ...string) {
	c.t.Helper()
	c.main.expect("[a b c] v=" + version + " n=n" + version)
	synctest.Wait()
	var last wire.Response
	var has []string
	c.store.get(func(s *memStore) {
		for _, r := range s.states {
			if r.TypeURL == clusters && r.Version == version {
				last = *r
			}
		}
	})
	for _, r := range last.Resources {
		has = append(has, r.Name)
	}
	if !slices.Equal(has, names) || last.Partial != partial || !slices.Equal(last.Removed, removed) {
		c.t.Errorf("applied %q without %q, partial %t, want %q without %q, %t", has, last.Removed, last.Partial, names, removed, partial)
	}
}

// other answers the question that a list raises.
func (c *checking) other(names ...string) {
	c.t.Helper()
	as := c.srv.accept(stateADS)
	as.expect("[a b c] v= n=")
	as.state(clusters, "9", "m", names...)
	<-as.halfEnd
	synctest.Wait()
}

// A list that lacks resources which were not touched waits until a stream without a version shows what is gone. What comes
// behind it on the stream waits, too, and is taken after it. Then the endpoint is known.
func TestListsThatLackResources_RES8_ADS3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newDoubting(t, nil)
		c.store.changing = true
		c.list("2", "a")
		c.main.state(endpoints, "7", "e", "x")
		c.list("3", "b")
		synctest.Wait()
		c.main.silent()
		c.other("a", "b", "c")
		c.acknowledged("2", true, []string{"a"})
		c.main.expect("[x] v=7 n=e") // in order
		c.other("a", "b")
		c.acknowledged("3", true, []string{"b"}, "c")
		if !slices.Equal(c.obs.checked, []string{"partial", "partial"}) {
			t.Errorf("told %q", c.obs.checked)
		}
	})
	synctest.Test(t, func(t *testing.T) { // whole lists
		c := newDoubting(t, nil)
		c.list("2", "a", "b")
		c.other("a", "b")
		c.acknowledged("2", false, []string{"a", "b"})
		c.list("3", "a") // at once: it is known
		c.acknowledged("3", false, []string{"a"})
		if n := len(c.srv.opened(stateADS)); n > 0 {
			t.Errorf("%d further streams", n)
		}
	})
	synctest.Test(t, func(t *testing.T) { // what changed was all: nothing is known
		c := newDoubting(t, nil)
		c.store.changing = true
		c.list("2", "a", "b")
		c.other("a", "b")
		c.acknowledged("2", false, []string{"a", "b"})
		c.list("3", "a")
		c.other("a", "b")
		c.acknowledged("3", true, []string{"a"}, "c")
	})
}

// Where the server gives no second stream, a list is taken as it is: at once from then on.
func TestRemovalsPassWithoutASecondStream_RES8(t *testing.T) {
	for name, answer := range map[string]func(*anyStream){
		"refuses":   func(as *anyStream) { as.end <- status.Error(codes.ResourceExhausted, "one stream only") },
		"is silent": func(*anyStream) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newDoubting(t, nil)
				begun := time.Now()
				c.list("2", "a", "b")
				answer(c.srv.accept(stateADS))
				c.acknowledged("2", false, []string{"a", "b"})
				if took := time.Since(begun); took > 8*time.Second {
					t.Errorf("it took %v", took)
				}
				c.list("3", "a")
				c.acknowledged("3", false, []string{"a"})
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := newDoubting(t, func(cfg *Config) { cfg.TrustLists = true })
		c.list("2", "a")
		c.acknowledged("2", false, []string{"a"})
	})
}

// A server that sends partial lists and does not say any more what is gone keeps everything, until the stream begins anew.
func TestPartialListsWithoutAnAnswer_RES8_RES7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newDoubting(t, nil)
		c.list("2", "a")
		c.other("a", "b", "c")
		c.acknowledged("2", true, []string{"a"})
		c.list("3", "a")
		c.srv.accept(stateADS).end <- status.Error(codes.Unavailable, "too many streams")
		c.acknowledged("3", true, []string{"a"})
		begun := time.Now()
		time.Sleep(30 * time.Second)
		c.main.state(endpoints, "5", "e", "x") // or it is asked whether it is there
		as := c.srv.accept(stateADS)
		as.expect("[a b c] v= n=")
		if took := time.Since(begun); took > 2*renewPause {
			t.Errorf("the stream began anew after %v", took)
		}
		as.state(clusters, "4", "n4", "a", "b")
		as.expect("[x] v= n=")
		as.expect("[a b c] v=4 n=n4")
		if last, _ := c.applied(); last.Partial {
			t.Error("the first list of a stream counts as partial")
		}
	})
}

// A stream that ends while a list waits takes the list with it: the next stream says what there is.
func TestStreamEndsInDoubt_RES8_STR3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newDoubting(t, nil)
		c.list("2", "a")
		as := c.srv.accept(stateADS)
		c.main.end <- status.Error(codes.Unavailable, "restarting")
		as.state(clusters, "9", "m", "a", "b", "c")
		c.srv.accept(stateADS).expect("[a b c] v= n=")
		c.store.get(func(s *memStore) {
			for _, r := range s.states {
				if len(r.Removed) > 0 {
					t.Errorf("%q were removed", r.Removed)
				}
			}
		})
	})
}

// One scope of an upstream asks at a time. The others go by what it finds.
func TestOneScopeAsks_RES8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		cfg := n.speaking(AggregatedGRPC, "a")
		cfg.Keepalive.Response = 8 * time.Second
		srv, u := n.serveAny("a"), newUpstream(t, cfg)
		var scopes []*anyStream
		for range 20 {
			run(t, u, newStore(sub(clusters, "a", "b")), nil)
			as := srv.accept(stateADS)
			as.expect("[a b] v= n=")
			as.state(clusters, "1", "n1", "a", "b")
			as.expect("[a b] v=1 n=n1")
			scopes = append(scopes, as)
		}
		for _, as := range scopes {
			as.state(clusters, "2", "n2", "a")
		}
		other := srv.accept(stateADS)
		synctest.Wait()
		if more := len(srv.opened(stateADS)); more > 0 {
			t.Errorf("%d scopes ask beside one", more)
		}
		other.state(clusters, "9", "m", "a")
		for _, as := range scopes {
			as.expect("[a b] v=2 n=n2")
		}
		if more := len(srv.opened(stateADS)); more > 0 {
			t.Errorf("%d scopes asked all the same", more)
		}
	})
}
