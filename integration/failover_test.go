package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// TestFailover kills one of two control planes of go-control-plane's: the client's
// names that have an alternative are served by the other, under the names that the
// client asked for, and nothing else changes for it. When the first is back, so is
// its content. At no time does the client hold less than before.
func TestFailover_LOC5_LOC3_NAME4_OPS1(t *testing.T) {
	for _, v := range []variant{deltaADS, sotwADS} {
		t.Run(v.name, func(t *testing.T) {
			f := newFailover(t, v, alternativeAfter)
			f.converge("the first state")

			before := f.client.seen()
			killed := time.Now()
			f.kill("cloud")
			f.converge("the alternative")
			f.only(before, 1, "the alternative")
			gap := f.last(before).Sub(killed)

			f.update("on-prem", "first")
			f.update("on-prem", "own")
			f.update("cloud", "first") // nobody hears of it yet
			f.converge("a change at the alternative")

			before = f.client.seen()
			restored := time.Now()
			f.restore("cloud")
			f.converge("the first again")
			f.only(before, 2, "the first again") // what the relay had of it, and what it has now
			t.Logf("%s: the alternative's content %v after the kill (alternative_after is %v), the first's %v after its return, 0 resources lost",
				v.name, gap, alternativeAfter, f.last(before).Sub(restored))

			f.update("cloud", "first")
			f.update("cloud", "own")
			f.converge("a change at the first")
			f.lossless()
			f.relay.consistent(t)
		})
	}
}

// TestFailoverWaits kills a control plane for less than the time after which the
// alternative is asked: nobody asks it, and the client does not notice.
func TestFailoverWaits_LOC5_LOC7_NAME8_SUB10(t *testing.T) {
	f := newFailover(t, deltaADS, time.Hour)
	f.converge("the first state")
	f.streams()
	before := f.client.seen()
	f.kill("cloud")
	waitFor(t, "the outage to be noticed", func() bool {
		code, body := f.relay.get(t, "/upstreams")
		return code == http.StatusOK && strings.Contains(body, `"state": "connecting"`)
	})
	f.update("cloud", "first")
	f.restore("cloud")
	f.converge("a change of the first")
	f.only(before, 1, "a change of the first")
	f.streams()
	f.lossless()
	f.relay.consistent(t)
}

// TestFailoverAgainAndAgain kills and restores both control planes at random moments
// while both change. Whenever it is quiet the client has the content of the authority
// that its names lead to then, and it never loses anything.
func TestFailoverAgainAndAgain_LOC5_OPS1_OPS2(t *testing.T) {
	for _, v := range []variant{deltaADS, sotwADS} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(v.name, " ", seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 11))
				f := newFailover(t, v, alternativeAfter)
				f.converge("the first state")
				for range 60 {
					switch r.IntN(10) {
					case 0, 1:
						f.toggle("cloud")
					case 2:
						f.toggle("on-prem")
					case 3, 4:
						f.converge("a quiet moment")
					case 5:
						f.update("cloud", "own")
					case 6:
						f.update("on-prem", "own")
					case 7:
						f.update("cloud", "first")
					default:
						f.update("on-prem", "first")
					}
				}
				f.converge("what the schedule ends with")
				for _, authority := range []string{"on-prem", "cloud"} {
					f.update(authority, "own")
					f.restore(authority)
				}
				f.converge("everybody is there")
				f.lossless()
				f.relay.consistent(t)
			})
		}
	}
}

// alternativeAfter is how long a control plane may be away before its alternative is
// asked, in these tests.
const alternativeAfter = 20 * time.Millisecond

// twoAuthorities gives the first upstream the authority cloud and the second one
// on-prem.
func twoAuthorities(after time.Duration) func(*config.Config) {
	return func(c *config.Config) {
		c.Upstreams[0].Default = false
		c.Upstreams[0].Authorities = []string{"cloud"}
		c.Upstreams[1].Authorities = []string{"on-prem"}
		c.Resolve.AlternativeAfter = config.Duration(after)
	}
}

// failoverTypes are one whose lists are always whole, so that one without a name
// removes it, and one whose lists are not.
var failoverTypes = []string{clusterType, endpointType}

// withAlternative is the name that the cloud serves, or else on-prem.
func withAlternative(typeURL string) string {
	return nameAt("cloud", typeURL, "first") + "#alt=" + nameAt("on-prem", typeURL, "first")
}

// failover is one client of two control planes. Of each type it has a name with an
// alternative, and a name of each authority without one.
type failover struct {
	t       *testing.T
	planes  map[string]*gocontrolplane.ControlPlane // by authority
	down    map[string]bool
	relay   *testRelay
	client  *noted
	version int
	now     map[string]string // by name: what its control plane has
}

func newFailover(t *testing.T, v variant, after time.Duration) *failover {
	t.Helper()
	f := &failover{
		t: t, planes: make(map[string]*gocontrolplane.ControlPlane), down: make(map[string]bool), now: make(map[string]string),
	}
	for _, authority := range []string{"cloud", "on-prem"} {
		f.planes[authority] = startControlPlane(t)
		f.update(authority, "first")
		f.update(authority, "own")
	}
	f.relay = startRelay(t, twoAuthorities(after), f.planes["cloud"].Addr(), f.planes["on-prem"].Addr())
	f.client = startNoted(t, v, f.relay, "client")
	for _, typeURL := range failoverTypes {
		f.client.Subscribe(typeURL, withAlternative(typeURL), nameAt("cloud", typeURL, "own"), nameAt("on-prem", typeURL, "own"))
	}
	return f
}

// update gives the resources of an authority the next content.
func (f *failover) update(authority, id string) {
	f.t.Helper()
	f.version++
	version := fmt.Sprint("v", f.version)
	for _, typeURL := range failoverTypes {
		name := nameAt(authority, typeURL, id)
		if _, err := f.planes[authority].UpdateResource(name, message(typeURL, name, version, "")); err != nil {
			f.t.Fatal(err)
		}
		f.now[name] = string(contents(typeURL, name, version, ""))
	}
}

func (f *failover) kill(authority string) {
	f.planes[authority].Stop()
	f.down[authority] = true
}

// restore brings a control plane back. What it serves has to have changed meanwhile:
// one that says nothing on its stream counts as away until it has answered a question.
func (f *failover) restore(authority string) {
	f.t.Helper()
	if f.down[authority] {
		f.down[authority] = false
		if err := f.planes[authority].Restart(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *failover) toggle(authority string) {
	f.t.Helper()
	if f.down[authority] {
		f.update(authority, "own")
		f.restore(authority)
	} else {
		f.kill(authority)
	}
}

// converge waits until the client holds of every name what it should: the content of
// its authority, or the alternative's while its own is away. Of what nobody is there
// to tell of, the client keeps what it has.
func (f *failover) converge(what string) {
	f.t.Helper()
	await := func(typeURL, name, from, id string) {
		f.t.Helper()
		if !f.down[from] {
			f.client.awaitContent(f.t, what, typeURL, name, f.now[nameAt(from, typeURL, id)])
		}
	}
	for _, typeURL := range failoverTypes {
		from := "cloud"
		if f.down[from] {
			from = "on-prem"
		}
		await(typeURL, withAlternative(typeURL), from, "first")
		for authority := range f.planes {
			await(typeURL, nameAt(authority, typeURL, "own"), authority, "own")
		}
	}
}

// only checks that nothing was news to the client since then but its names that have
// an alternative, each at most so many times.
func (f *failover) only(since, most int, what string) {
	f.t.Helper()
	times := make(map[string]int)
	for _, c := range f.client.since(since) {
		switch {
		case c.kind == xdsclient.Unchanged: // a list names everything
		case c.name == withAlternative(c.typeURL):
			times[c.name]++
		default:
			f.t.Errorf("%s: the client was told of %s: %s", what, c.name, c.kind)
		}
	}
	for name, n := range times {
		if n > most {
			f.t.Errorf("%s: the client was told of %s %d times, want %d at most", what, name, n, most)
		}
	}
}

// last is when the client heard of the last news since then.
func (f *failover) last(since int) time.Time {
	f.t.Helper()
	var at time.Time
	for _, c := range f.client.since(since) {
		if c.kind != xdsclient.Unchanged {
			at = c.at
		}
	}
	return at
}

// lossless checks that the client was never told that anything is gone, not there,
// or not available.
func (f *failover) lossless() {
	f.t.Helper()
	for _, c := range f.client.since(0) {
		switch c.kind {
		case xdsclient.Added, xdsclient.Changed, xdsclient.Unchanged:
		default:
			f.t.Errorf("LOC-5: the client was told of %s: %s", c.name, c.kind)
		}
	}
}

// streams checks what the control planes are asked: names of their own, without
// directives, on one stream each; an alternative is not asked before its time.
func (f *failover) streams() {
	f.t.Helper()
	for authority, ids := range map[string][]string{"cloud": {"first", "own"}, "on-prem": {"own"}} {
		stats := awaitStreams(f.t, "LOC-7: the streams to "+authority, f.planes[authority], 1)
		for _, typeURL := range failoverTypes {
			want := make(map[string]int)
			for _, id := range ids {
				want[nameAt(authority, typeURL, id)] = 1
			}
			if got := stats.Streams[0].Types[typeURL].Names; !maps.Equal(got, want) {
				f.t.Errorf("NAME-8: %s is asked for %v, want %v", authority, got, want)
			}
		}
	}
}
