package behaviours

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// host is a virtual host that is sent to who asks for it, by its name or an alias.
func host(name, domain string, aliases ...string) plane.Resource {
	return plane.Resource{
		Name: name, Message: &routev3.VirtualHost{Name: name, Domains: []string{domain}}, Aliases: aliases, Unlisted: true,
	}
}

// Virtual hosts on demand are the same directly at a control plane and behind one relay or
// two: known ones, by their names and by aliases, unknown ones, and those that change, appear
// and go, for who comes later and who comes back, too.
func TestHosts_RES16_RES10_SUB14_SUB9(t *testing.T) {
	t.Parallel()
	for _, up := range []config.APIType{config.AggregatedDeltaGRPC, config.DeltaGRPC} {
		for relays := range 3 {
			t.Run(fmt.Sprintf("%s/%d relays", up, relays), func(t *testing.T) {
				t.Parallel()
				testHosts(newWorld(t, plane.Behaviour{Absent: plane.AbsentUnresolved}, relays, up))
			})
		}
	}
}

// hosts are the names of the test's clients.
func hosts() []string { return []string{"rc/known", "rc/alias", "rc/unknown"} }

func testHosts(w *world) {
	w.t.Helper()
	w.plane.Apply(plane.Change{Set: []plane.Resource{host("rc/known", "known.example"), host("rc/vh", "alias.example", "rc/alias")}})
	first := w.dial(xdsclient.Incremental, plane.VirtualHost) // as Envoy begins
	first.Subscribe(plane.VirtualHost, hosts()...)
	first.hears("RES-16 RES-10 on demand", "+rc/known", "+rc/vh", "=rc/unknown|rc/unknown")

	second := w.dial(xdsclient.Incremental, plane.VirtualHost)
	second.Subscribe(plane.VirtualHost, hosts()...)
	second.hears("RES-16 a second client", "+rc/known", "+rc/vh", "=rc/unknown|rc/unknown")
	both := func(what string, want ...string) {
		w.t.Helper()
		first.hears(what, slices.Clone(want)...)
		second.hears(what, want...)
	}

	w.plane.Apply(plane.Change{Set: []plane.Resource{host("rc/vh", "other.example", "rc/alias")}})
	both("RES-10 an alias is updated", "+rc/vh")
	first.Subscribe(plane.VirtualHost, "rc/late")
	first.hears("RES-16 another unknown one", "=rc/late|rc/late")
	w.plane.Apply(plane.Change{Set: []plane.Resource{host("rc/now", "unknown.example", "rc/unknown")}})
	both("RES-16 SUB-9 a host appears", "+rc/now")

	// The client comes back, with what it holds under the names of the resources.
	first.leave()
	first.Unsubscribe(plane.VirtualHost, "*")
	first.Subscribe(plane.VirtualHost, "*") // by name
	first.come()
	direct := w.addr == w.plane.Addr()
	got := first.heard("RES-10 RES-11 the client is back", "=rc/late|rc/late")
	if slices.ContainsFunc(got, removes) || (len(got) != 1 && !direct) {
		w.t.Errorf("the client that came back heard %q", got)
	}

	w.plane.Apply(plane.Change{Remove: []plane.Key{{TypeURL: plane.VirtualHost, Name: "rc/known"}}})
	both("a host is removed", "-rc/known")
	w.plane.Apply(plane.Change{Remove: []plane.Key{{TypeURL: plane.VirtualHost, Name: "rc/vh"}}})
	for _, c := range []*client{first, second} {
		for _, word := range c.heard("RES-10 RES-5 a host is removed that is asked for by an alias", "-rc/vh") {
			if word != "-rc/vh" && word != "-rc/alias" {
				w.t.Errorf("the client heard %q", word)
			}
		}
	}
	w.plane.BreakStreams()
	w.plane.Apply(plane.Change{Set: []plane.Resource{host("rc/late", "late.example"), host("rc/known", "again.example")}})
	if direct {
		return // its clients' streams broke
	}
	got = first.heard("RES-12 RES-16 after the control plane's streams broke", "+rc/late", "+rc/known")
	if slices.ContainsFunc(got, removes) {
		w.t.Errorf("RES-16: the client heard %q", got)
	}
	if n := w.plane.Streams(); n != 1 {
		w.t.Errorf("SUB-14: %d streams, want 1", n)
	}
}

// removes reports whether something was told as removed.
func removes(word string) bool { return strings.HasPrefix(word, "-") }

// An Envoy never ends its subscription to a host that does not exist, and anybody can send it requests for such hosts.
// They take nothing from the hosts that do exist: those are asked for and answered after any number of others.
func TestHostsThatDoNotExist_RES10_LIM2(t *testing.T) {
	t.Parallel()
	for relays := range 3 {
		t.Run(fmt.Sprintf("%d relays", relays), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, plane.Behaviour{Absent: plane.AbsentUnresolved}, relays, config.AggregatedDeltaGRPC, func(c *config.Config) {
				c.Limits.Subscriptions = 20
			})
			w.plane.Apply(plane.Change{Set: []plane.Resource{host("rc/known", "known.example")}})
			c := w.dial(xdsclient.Incremental, plane.VirtualHost)
			for i := range 10 {
				var asked, want []string
				for j := range 10 {
					name := fmt.Sprintf("rc/%d-%d", i, j)
					asked, want = append(asked, name), append(want, "="+name+"|"+name)
				}
				c.Subscribe(plane.VirtualHost, asked...)
				c.hears("RES-16 hosts that do not exist", want...)
			}
			c.Subscribe(plane.VirtualHost, "rc/known")
			c.hears("RES-10 one that exists", "+rc/known")
			w.plane.Apply(plane.Change{Set: []plane.Resource{host("rc/0-0", "late.example")}})
			c.Subscribe(plane.VirtualHost, "rc/0-0")
			c.heard("RES-10 one that exists when it is asked for again", "+rc/0-0")
		})
	}
}
