package upstream

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
)

// empties publishes a snapshot that has nothing, of no type.
func (p *livePlane) empties() {
	p.t.Helper()
	snap, err := cachev3.NewSnapshot("none", nil)
	if err == nil {
		err = p.cache.SetSnapshot(context.Background(), "relay", snap)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// emptiedPlanes are two go-control-planes with equal contents, and a session whose clients keep
// what the control planes lose, as they do while the relay holds a loss back.
type emptiedPlanes struct {
	*testing.T

	a, b    *livePlane
	store   *memStore
	obs     *recorder
	session *running
}

func newEmptiedPlanes(t *testing.T, api APIType) *emptiedPlanes {
	t.Helper()
	f := newFaulty(t)
	p := &emptiedPlanes{T: t, a: f.plane("a:1", api), b: f.plane("b:1", api), store: wanting(api, "x", "y"), obs: &recorder{}}
	p.fill("1")
	p.session = run(t, f.upstream(api, nil, []string{"a:1"}, []string{"b:1"}), p.store, p.obs)
	until(func() bool { return p.store.has("x") })
	p.store.holdsAll()
	time.Sleep(time.Minute)
	return p
}

func (p *emptiedPlanes) fill(version string, news ...string) {
	p.Helper()
	for _, plane := range []*livePlane{p.a, p.b} {
		plane.set(version, append([]string{"x", "y"}, news...)...)
	}
}

func (p *emptiedPlanes) empty() {
	p.Helper()
	p.a.empties()
	p.b.empties()
}

// undisturbed has time pass in which nothing becomes of the streams, and nobody is called silent.
func (p *emptiedPlanes) undisturbed(d time.Duration) {
	p.Helper()
	before := p.session.Status()
	time.Sleep(d)
	if st := p.session.Status(); st.Opened != before.Opened || st.State != StateConnected {
		p.Errorf("before %+v\nafter %+v", before, st)
	}
	p.obs.locked(func() {
		if len(p.obs.silent) > 0 {
			p.Errorf("called silent: %v", p.obs.silent)
		}
	})
}

// A control plane that has lost everything may be silent to what it delivered before: a snapshot
// has no version of a type that it lacks, which is what a request without one presents. Its
// streams stay, those of the next endpoint too, which has lost the same. Once there is something
// again a server that falls mute is left as before.
func TestSUR2_SUR3_EmptyControlPlanes(t *testing.T) {
	for _, api := range everyAPI() {
		for name, lose := range map[string]func(p *emptiedPlanes){
			"while they serve": (*emptiedPlanes).empty,
			"restarted": func(p *emptiedPlanes) {
				p.a.stop()
				p.b.stop()
				p.empty()
				p.b.serve()
				p.a.serve()
			},
			"the first comes back later": func(p *emptiedPlanes) {
				p.a.stop()
				time.Sleep(time.Minute)
				p.empty()
				time.Sleep(time.Minute)
				p.a.serve()
			},
		} {
			t.Run(string(api)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newEmptiedPlanes(t, api)
					lose(p)
					time.Sleep(5 * time.Minute)
					p.undisturbed(time.Hour)

					p.fill("2", "back")
					if took := until(func() bool { return p.store.has("back") }); took > 2*DefaultPollInterval {
						t.Errorf("filled again after %v", took)
					}
					time.Sleep(2*DefaultFailbackInterval + stableAfter) // the first endpoint has an answer again
					p.undisturbed(5 * time.Minute)
					serving, next := p.a, p.b
					if p.session.Status().Endpoint == "passthrough:///b:1" {
						serving, next = p.b, p.a
					}
					serving.mute.Store(true)
					next.set("3", "x", "y", "news")
					if took := until(func() bool { return p.store.has("news") }); took > 70*time.Second {
						t.Errorf("served by the other endpoint after %v; %+v", took, p.session.Status())
					}
				})
			})
		}
	}
}

// A server may hold polls for what it delivered before, without a version too: a relay does while it does not know
// whether there still is something, and its control plane may never say. It is called silent once, and then asked for
// something else. Before, all its polls were ended every few seconds for as long as that lasted, and the clocks of
// names began anew each time.
func TestSUR2_RES7_PollsThatAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(t)
		a := f.plane("a:1", REST)
		a.set("1", "x", "y", "z") // of the endpoints only one is wanted: the smallest is asked for
		var lost atomic.Bool
		a.rest.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
			if poll.GetVersionInfo() != "" || poll.GetTypeUrl() == endpoints && lost.Load() {
				hang(w, r, poll)
				return
			}
			a.poll(w, r, poll)
		})
		store, obs := wanting(REST, "x"), &recorder{}
		run(t, f.upstream(REST, nil, []string{"a:1"}), store, obs)
		until(func() bool { return store.has("x") })
		store.holdsAll()
		time.Sleep(time.Minute)
		lost.Store(true)
		time.Sleep(time.Hour)
		obs.locked(func() {
			if len(obs.silent) > 1 {
				t.Errorf("called silent %d times within an hour", len(obs.silent))
			}
		})
	})
}
