package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/grpc/codes"
)

// nobody claims an authority.
const nobody = -1

// TestAuthorities serves names and globs of several authorities over one stream (or
// one for each type), each from the control plane that claims it. What nobody claims
// is answered as not existing, and the stream goes on.
func TestAuthorities_LOC3_LOC4_LOC7_ERR1(t *testing.T) {
	for _, claims := range []struct {
		name     string
		claims   [][]string // by upstream
		fallback int        // the default upstream
		owners   map[string]int
	}{
		{
			"LOC-3 LOC-7 named, and one with all else", [][]string{{"a", "b"}, {"c", ""}, {}}, 2,
			map[string]int{"a": 0, "b": 0, "c": 1, "": 1, "d": 2, "a.b": 2},
		},
		{
			"LOC-3 by pattern: a name goes before the longest pattern, and that before the default",
			[][]string{{"*.example.com", "example.org"}, {"*.eu.example.com", "x.example.com"}, {}}, 2,
			map[string]int{
				"a.example.com": 0, "a.b.example.com": 0, "example.org": 0,
				"a.eu.example.com": 1, "x.example.com": 1,
				"example.com": 2, "badexample.com": 2, "a.example.org": 2,
			},
		},
		{
			"LOC-4 ERR-1 claimed by nobody", [][]string{{"a", "*.example.com"}, {"b"}}, nobody,
			map[string]int{"a": 0, "x.example.com": 0, "b": 1, "example.com": nobody, "c": nobody, "": nobody},
		},
	} {
		for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
			t.Run(claims.name+", "+v.name, func(t *testing.T) {
				var planes []*testPlane
				var addrs []string
				for i := range claims.claims {
					p := newPlane(t)
					p.plain, p.life = true, i // so that no two have the same contents
					planes, addrs = append(planes, p), append(addrs, p.addr)
				}
				relay := startRelay(t, func(c *config.Config) {
					for i := range c.Upstreams {
						c.Upstreams[i].Authorities, c.Upstreams[i].Default = claims.claims[i], i == claims.fallback
					}
				}, addrs...)
				a := &authoritiesTest{planes: planes, owners: claims.owners, client: startNoted(t, v, relay, "federated")}
				a.fill()
				a.subscribe()
				a.holds(t)
				a.fill() // the next version
				a.holds(t)
				a.refused(t)
				a.streams(t)
				relay.consistent(t)
			})
		}
	}
}

// authoritiesTest is a client of names and globs of several authorities.
type authoritiesTest struct {
	planes []*testPlane
	owners map[string]int // index of the control plane that claims an authority, or nobody
	client *noted
}

func nameAt(authority, typeURL, id string) string {
	return fmt.Sprintf("xdstp://%s/%s/%s", authority, typeURL[len("type.googleapis.com/"):], id)
}

// fill gives every control plane the resources of every authority, those of others
// too: only by whom it asks can the relay tell them apart.
func (a *authoritiesTest) fill() {
	for _, p := range a.planes {
		for authority := range a.owners {
			p.set(endpointType, nameAt(authority, endpointType, "x"), false)
			p.set(listenerType, nameAt(authority, listenerType, "dir/y"), false)
		}
	}
}

func (a *authoritiesTest) subscribe() {
	for _, authority := range slices.Sorted(maps.Keys(a.owners)) {
		a.client.Subscribe(endpointType, nameAt(authority, endpointType, "x"))
		a.client.Subscribe(listenerType, nameAt(authority, listenerType, "dir/*"))
	}
}

// holds waits until the client holds what each authority's own control plane has.
func (a *authoritiesTest) holds(t *testing.T) {
	t.Helper()
	served := 0
	for authority, owner := range a.owners {
		if owner == nobody {
			continue
		}
		served++
		for typeURL, id := range map[string]string{endpointType: "x", listenerType: "dir/y"} {
			name := nameAt(authority, typeURL, id)
			want := a.planes[owner].payloads(typeURL, map[string]bool{name: true})[name]
			a.client.awaitContent(t, fmt.Sprintf("%q from control plane %d", name, owner), typeURL, name, want)
		}
	}
	for _, typeURL := range []string{endpointType, listenerType} {
		if n := a.client.Len(typeURL); n != served {
			t.Errorf("LOC-4: %d resources are held, want those of %d authorities: %s", n, served, a.client.story())
		}
	}
}

// refused waits until the client was told of every name that nobody serves.
func (a *authoritiesTest) refused(t *testing.T) {
	t.Helper()
	for authority, owner := range a.owners {
		if owner != nobody {
			continue
		}
		for _, name := range []string{nameAt(authority, endpointType, "x"), nameAt(authority, listenerType, "dir/*")} {
			a.client.await(t, fmt.Sprintf("LOC-4: an error of %q", name), func() bool {
				return a.client.failure(name) == codes.NotFound
			})
		}
	}
}

// streams checks that each control plane that owns an authority has one stream, and
// was asked for nothing else.
func (a *authoritiesTest) streams(t *testing.T) {
	t.Helper()
	for i, p := range a.planes {
		var want []string
		for authority, owner := range a.owners {
			if owner == i {
				want = append(want, nameAt(authority, endpointType, "x"), nameAt(authority, listenerType, "dir/*"))
			}
		}
		var got []string
		all := p.streamsNow()
		for _, st := range all {
			for _, typeURL := range slices.Sorted(maps.Keys(st.subs)) {
				got = append(got, st.subs[typeURL]...)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if len(all) > 1 || !slices.Equal(got, want) {
			t.Errorf("LOC-7: control plane %d has %d streams that ask for %q, want one that asks for %q", i, len(all), got, want)
		}
		p.checkClient(t)
	}
}

// failure is the code of the last error that the client was given of a name.
func (n *noted) failure(name string) codes.Code {
	for _, c := range slices.Backward(n.since(0)) {
		if c.name == name && c.kind == xdsclient.Failed {
			return c.failure.Code
		}
	}
	return codes.OK
}
