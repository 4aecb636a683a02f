package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/grpc/codes"
)

// awaitFailure waits until the client was told why a name cannot be had.
func (r *redirects) awaitFailure(what, asked, message string) {
	r.t.Helper()
	name := r.name(asked)
	r.client.await(r.t, what, func() bool {
		return slices.ContainsFunc(r.client.since(0), func(c notedChange) bool {
			return c.name == name && c.kind == xdsclient.Failed &&
				c.failure.Code == codes.FailedPrecondition && strings.Contains(c.failure.Message, message)
		})
	})
	if held := r.client.content(endpointType, name); held != "" {
		r.t.Errorf("%s: %q is held", what, held)
	}
}

// TestRedirectsFollowed has the relay follow redirects: of a name, over several
// authorities, and of a member of a glob. The client holds what they lead to under
// the names that it asked for, whatever of the way there changes.
func TestRedirectsFollowed_LOC1_LOC2_NAME4(t *testing.T) {
	for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
		t.Run(v.name, func(t *testing.T) {
			r := newRedirects(t, v, config.FollowRedirects)
			r.lead("a/x", "b/x")
			r.lead("b/x", "a/y")
			for _, short := range []string{"a/y", "b/y", "b/m", "a/d/n"} {
				r.set(short)
			}
			r.lead("a/d/m", "b/m")
			r.client.Subscribe(endpointType, r.name("a/x"), r.name("a/d/*"))
			r.awaitAs("a chain of redirects", "a/x", "a/y")
			r.awaitAs("a member that is redirected", "a/d/m", "b/m")
			r.awaitAs("a member that is not", "a/d/n", "a/d/n")
			if n := r.client.Len(endpointType); n != 3 {
				t.Errorf("NAME-4: %d resources are held, want the three that were asked for: %s", n, r.client.story())
			}
			for _, change := range []struct {
				what   string
				change func()
				x, m   string // where they lead then
			}{
				{"a change of the targets", func() { r.set("a/y"); r.set("b/m") }, "a/y", "b/m"},
				{"another target", func() { r.lead("b/x", "b/y"); r.lead("a/d/m", "a/y") }, "b/y", "a/y"},
				{"no redirect any more", func() { r.set("a/x"); r.set("a/d/m") }, "a/x", "a/d/m"},
				{"a redirect again", func() { r.lead("a/x", "b/y"); r.lead("a/d/m", "b/m") }, "b/y", "b/m"},
			} {
				change.change()
				r.awaitAs(change.what, "a/x", change.x)
				r.awaitAs(change.what, "a/d/m", change.m)
			}
			r.end()
		})
	}
}

// TestRedirectsThatEnd has redirects that lead back to where they began, lead too far,
// or lead to what no resource can be: the client is told why, gets what there is once
// that is repaired, and everything else meanwhile.
func TestRedirectsThatEnd_LOC1_LOC2_ERR1(t *testing.T) {
	for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
		t.Run(v.name, func(t *testing.T) {
			r := newRedirects(t, v, config.FollowRedirects)
			r.set("a/x")
			r.lead("a/itself", "a/itself")
			r.lead("a/loop", "b/loop")
			r.lead("b/loop", "a/loop")
			r.lead("a/glob", "b/d/*")
			for i := range 4 { // one more than are followed
				r.lead(fmt.Sprint("a/far-", i), fmt.Sprint("a/far-", i+1))
			}
			r.set("a/far-4")
			ends := map[string]string{
				"a/itself": "lead back", "a/loop": "lead back", "a/glob": "not of type", "a/far-0": "more than 3 redirects",
			}
			for short := range ends {
				r.client.Subscribe(endpointType, r.name(short))
			}
			r.client.Subscribe(endpointType, r.name("a/far-1"), r.name("a/x"))
			for short, message := range ends {
				r.awaitFailure("the end of "+short, short, message)
			}
			r.awaitAs("as many redirects as are followed", "a/far-1", "a/far-4")
			r.awaitAs("what is no redirect", "a/x", "a/x")

			r.set("a/itself")
			r.lead("b/loop", "a/x")
			r.lead("a/glob", "a/x")
			r.lead("a/far-2", "a/far-4")
			for short, from := range map[string]string{"a/itself": "a/itself", "a/loop": "a/x", "a/glob": "a/x", "a/far-0": "a/far-4"} {
				r.awaitAs("what was repaired", short, from)
			}
			r.end()
		})
	}
}
