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

// checking is a session over a stream of the state of the world that has endpoints x.
type checking struct {
	t     *testing.T
	srv   *anyServer
	store *memStore
	obs   *recorder
	main  *anyStream
	names []string
}

func newChecking(t *testing.T, change func(*Config)) *checking {
	t.Helper()
	n := newNetwork(t)
	cfg := n.speaking(AggregatedGRPC, "a")
	cfg.Keepalive.Response = 8 * time.Second
	if change != nil {
		change(&cfg)
	}
	c := &checking{t: t, srv: n.serveAny("a"), store: newStore(sub(endpoints, "x")), obs: &recorder{}, names: []string{"x"}}
	run(t, newUpstream(t, cfg), c.store, c.obs)
	c.main = c.srv.accept(stateADS)
	c.main.expect("[x] v= n=")
	c.main.state(endpoints, "1", "n1", "x")
	c.main.expect("[x] v=1 n=n1")
	return c
}

// add has a client want a name.
func (c *checking) add(name string) {
	c.t.Helper()
	c.names = append(c.names, name)
	c.store.want(0, []wire.Subscription{sub(endpoints, c.names...)}, sub(endpoints, name))
	c.main.next()
}

// applied is what the Store was handed last.
func (c *checking) applied() (last wire.Response, names []string) {
	synctest.Wait()
	c.store.get(func(s *memStore) {
		last = *s.states[len(s.states)-1]
		for _, r := range last.Resources {
			names = append(names, r.Name)
		}
	})
	return last, names
}

// noOther checks that the session has opened no further stream after a while.
func (c *checking) noOther(what string, d time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); { // it says something, so that nobody asks whether it is there
		time.Sleep(20 * time.Second)
		c.main.state(endpoints, "9", "again", "x")
		c.main.next()
	}
	synctest.Wait()
	if n := len(c.srv.opened(stateADS)); n > 0 {
		c.t.Errorf("%s: %d further streams", what, n)
	}
}

// A name that is added and not answered within a second is asked for once, without a version, on a stream that ends with
// the answer. Once the server had one, it is asked for the next ones at once.
func TestAddedNamesAreAskedFor_SUR8_RES7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChecking(t, nil)
		begun := time.Now()
		c.add("y")
		c.add("z")
		other := c.srv.accept(stateADS)
		if took := time.Since(begun); took < addedPause || took > addedPause+2*DefaultBatch {
			t.Errorf("asked after %v", took)
		}
		other.expect("[y z] v= n=")
		c.main.state(endpoints, "3", "n3", "z") // what the main stream delivers is newer
		c.main.expect("[x y z] v=3 n=n3")
		other.state(endpoints, "2", "m1", "y", "z")
		<-other.halfEnd
		if last, names := c.applied(); !slices.Equal(names, []string{"y"}) || !last.Partial || last.Version != "2" {
			t.Errorf("applied %q of %+v, want y as a partial list", names, last)
		}
		c.main.silent()
		c.noOther("all is answered", time.Minute)

		begun = time.Now()
		c.add("w")
		c.srv.accept(stateADS).expect("[w] v= n=")
		if took := time.Since(begun); took > 2*DefaultBatch {
			t.Errorf("asked after %v, want at once", took)
		}
	})
}

// A name that is answered in time, is let go, or does not exist costs no further stream; nor does any if that is switched
// off.
func TestNamesThatAreNotAskedFor_SUR8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChecking(t, nil)
		c.add("y")
		c.main.state(endpoints, "2", "n2", "y")
		c.main.next()
		c.add("z")
		c.store.want(0, []wire.Subscription{sub(endpoints, "x", "y")}, unsub(endpoints, "z"))
		c.main.next()
		c.noOther("answered, and let go", time.Minute)
		c.add("none")
		other := c.srv.accept(stateADS)
		other.expect("[none] v= n=")
		other.state(endpoints, "2", "m1")
		c.noOther("there is none", time.Minute)
		if !slices.Equal(c.obs.checked, []string{"nothing"}) {
			t.Errorf("told %q", c.obs.checked)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newChecking(t, func(cfg *Config) { cfg.TrustLists = true })
		c.add("y")
		c.noOther("switched off", time.Hour/2)
	})
}

// A server that refuses the second stream, or does not answer on it, is not asked again for an hour.
func TestNoSecondStreamForNames_SUR8(t *testing.T) {
	for name, answer := range map[string]func(*anyStream){
		"refuses":   func(as *anyStream) { as.end <- status.Error(codes.ResourceExhausted, "one stream only") },
		"is silent": func(*anyStream) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChecking(t, nil)
				c.add("y")
				answer(c.srv.accept(stateADS))
				c.noOther("it is known", time.Minute)
				c.add("z")
				c.noOther("within an hour", 40*time.Minute)
				c.noOther("it was not asked again", 20*time.Minute)
				c.add("w")
				c.srv.accept(stateADS).expect("[w] v= n=")
			})
		})
	}
}
