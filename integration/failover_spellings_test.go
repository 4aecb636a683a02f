package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSpellingsOfAlternatives has a client for every spelling of a name, and of a
// glob, that have an alternative: each authority is asked once, and every client gets
// what either has under the name that it spelled itself; members of a glob without
// directives.
func TestSpellingsOfAlternatives_LOC5_NAME3_NAME4_NAME8_SUB10(t *testing.T) {
	for _, v := range []variant{deltaADS, sotwADS, restPoll} {
		for _, segment := range []string{"x", "*"} {
			t.Run(v.name+" "+segment, func(t *testing.T) {
				g := newGlobFailover(t, v, endpointType)
				own := func(authority, segment string) []string {
					names := spelled(endpointType, segment)
					for i, n := range names {
						_, rest, _ := strings.Cut(n, "://")
						_, rest, _ = strings.Cut(rest, "/")
						names[i] = "xdstp://" + authority + "/" + rest
					}
					return names
				}
				for authority, p := range g.planes {
					p.set(endpointType, own(authority, "x")[0], false)
				}
				alternatives := own("on-prem", segment)
				var clients []*noted
				var held []string // the name that each of them should hold
				for i, name := range own("cloud", segment) {
					c := startNoted(t, v, g.relay, fmt.Sprint("client-", i))
					full := name + "#alt=" + inDirective(alternatives[len(alternatives)-1-i], i)
					c.Subscribe(endpointType, full)
					if segment == "*" {
						full = own("cloud", "x")[i]
					}
					clients, held = append(clients, c), append(held, full)
				}
				everybody := func(what, authority string) {
					t.Helper()
					want := g.payload(authority, own(authority, "x")[0])
					for i, c := range clients {
						c.awaitContent(t, what, endpointType, held[i], want)
						if n := c.Len(endpointType); n != 1 {
							t.Errorf("%s: %d resources are held, want 1: %s", what, n, c.story())
						}
					}
				}
				everybody("the first", "cloud")
				g.planes["cloud"].stop()
				everybody("the alternative", "on-prem")
				g.planes["cloud"].set(endpointType, own("cloud", "x")[0], false)
				g.planes["cloud"].restart(t)
				everybody("the first again", "cloud")
				for authority, p := range g.planes {
					for _, st := range p.streamsNow() {
						if names := keysOf(st.subs[endpointType]); !slices.Equal(names, own(authority, segment)[:1]) {
							t.Errorf("SUB-10, NAME-8: %s is asked for %q, want %q", authority, names, own(authority, segment)[0])
						}
					}
				}
				g.end()
			})
		}
	}
}

// inDirective encodes a name as the value of a directive: what must be, and with an
// odd number also what need not.
func inDirective(name string, number int) string {
	encode := strings.NewReplacer("%", "%25", "#", "%23", ",", "%2C")
	if number%2 == 1 {
		encode = strings.NewReplacer("%", "%25", "#", "%23", ",", "%2C", ":", "%3A", "/", "%2f", "e", "%65")
	}
	return encode.Replace(name)
}
