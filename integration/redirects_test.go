package integration

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// redirects is a client of two control planes, of the authorities a and b. The names
// that it asks for are a's, and lead to b's.
type redirects struct {
	t      *testing.T
	planes map[string]*testPlane // by authority
	relay  *testRelay
	client *noted
}

func newRedirects(t *testing.T, v variant) *redirects {
	t.Helper()
	r := &redirects{t: t, planes: map[string]*testPlane{"a": newPlane(t), "b": newPlane(t)}}
	r.planes["a"].plain, r.planes["b"].plain = true, true
	r.planes["b"].life = 1
	r.relay = startRelay(t, func(c *config.Config) {
		c.Upstreams[0].Default = false
		c.Upstreams[0].Authorities, c.Upstreams[1].Authorities = []string{"a"}, []string{"b"}
	}, r.planes["a"].addr, r.planes["b"].addr)
	r.client = startNoted(t, v, r.relay, "client")
	return r
}

// name spells a name by its authority and its id: "a/x".
func (*redirects) name(short string) string {
	authority, id, _ := strings.Cut(short, "/")
	return nameAt(authority, endpointType, id)
}

// set gives a name its next content; lead has it lead to another.
func (r *redirects) set(short string) {
	r.planes[short[:1]].set(endpointType, r.name(short), false)
}

func (r *redirects) lead(from, to string) {
	r.planes[from[:1]].redirect(endpointType, r.name(from), r.name(to))
}

// payload is what a name's control plane has.
func (r *redirects) payload(short string) string {
	name := r.name(short)
	return r.planes[short[:1]].payloads(endpointType, map[string]bool{name: true})[name]
}

// awaitAs waits until the client holds under one name what stands at another.
func (r *redirects) awaitAs(what, asked, from string) {
	r.t.Helper()
	r.client.awaitContent(r.t, what, endpointType, r.name(asked), r.payload(from))
}

// askedFor is how often a control plane was asked for a name of its own.
func (r *redirects) askedFor(short string) int {
	times := 0
	for _, st := range r.planes[short[:1]].streamsNow() {
		times += st.subscribed[endpointType][r.name(short)]
	}
	return times
}

// end checks what a control plane can tell of the relay, and the cache.
func (r *redirects) end() {
	r.t.Helper()
	for _, p := range r.planes {
		p.checkClient(r.t)
	}
	r.relay.consistent(r.t)
}

// TestRedirectsPassed has a name and a member of a glob redirected to another
// authority. The client gets the redirects as they are, and the relay asks for a target
// once the client does.
func TestRedirectsPassed_LOC1_LOC2_VAR7(t *testing.T) {
	for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
		t.Run(v.name, func(t *testing.T) {
			r := newRedirects(t, v)
			targets := map[string]string{"a/x": "b/x", "a/d/m": "b/m"}
			for from, to := range targets {
				r.lead(from, to)
				r.set(to)
			}
			r.set("a/d/n")
			r.client.Subscribe(endpointType, r.name("a/x"), r.name("a/d/*"))
			r.awaitAs("a member that is no redirect", "a/d/n", "a/d/n")
			for from, to := range targets {
				r.awaitAs("the redirect", from, from)
				if got := r.client.payloadType(endpointType, r.name(from)); got != locatorType {
					t.Errorf("LOC-1: %s is a %q, want a redirect", from, got)
				}
				if n := r.askedFor(to); n != 0 {
					t.Errorf("LOC-1: %s was asked for %d times before the client asked", to, n)
				}
			}
			for _, to := range targets {
				r.client.Subscribe(endpointType, r.name(to))
				r.awaitAs("the target", to, to)
				if n := r.askedFor(to); n != 1 {
					t.Errorf("LOC-1: %s was asked for %d times, want once", to, n)
				}
			}
			r.end()
		})
	}
}
