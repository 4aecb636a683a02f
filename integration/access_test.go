package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// narrowed is what the relay ends streams with whose clients may get other names now.
const narrowed = "the configuration changed what this client may get: connect again"

// denying is a configuration that denies the names for which one of the expressions is true.
func denying(expressions ...string) func(*config.Config) {
	return func(c *config.Config) {
		c.Access.Rules = nil
		for i, x := range expressions {
			c.Access.Rules = append(c.Access.Rules, config.AccessRule{Name: fmt.Sprintf("no-%d", i), Match: x, Effect: config.Deny})
		}
		c.Access.Rules = append(c.Access.Rules, config.AccessRule{Name: "rest", Match: "true", Effect: config.Allow})
	}
}

const hidden = `name.contains("hidden")`

// askedFor lists what the streams of a control plane are subscribed to.
func (p *testPlane) askedFor() string {
	var names []string
	for _, st := range p.streamsNow() {
		for _, subs := range st.subs {
			names = append(names, subs...)
		}
	}
	return strings.Join(names, " ")
}

// joinAccess connects a client of a variant.
func joinAccess(t *testing.T, v variant, r *testRelay) xdsClient {
	t.Helper()
	c := newVariantClient(t, v, r.address(v), "client")
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	return c
}

// A denied name is answered alike whether there is such a resource or not, no control plane hears of
// it, and the rest of the stream goes on.
func TestAccessDenies_ACC2(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			p := newPlane(t)
			p.plain = true
			p.set(endpointType, "open", false)
			p.set(endpointType, "hidden-exists", false)
			r := startRelay(t, denying(hidden), p.addr)
			c := joinAccess(t, v, r)
			c.subscribe(endpointType, []string{"hidden-exists", "hidden-missing"}, nil)
			h := c.common()
			for _, name := range []string{"hidden-exists", "hidden-missing"} {
				if !h.happens(func() bool { return h.errorOf(endpointType, name) == codes.PermissionDenied }) {
					t.Fatalf("ACC-2: %s: got %v", name, h.errorOf(endpointType, name))
				}
			}
			c.subscribe(endpointType, []string{"open"}, nil)
			h.awaitHolding(t, endpointType, "open")
			p.set(endpointType, "hidden-exists", false)
			p.set(endpointType, "open", false)
			if !h.happens(func() bool {
				return maps.Equal(h.payloads(endpointType), p.payloads(endpointType, map[string]bool{"open": true}))
			}) {
				t.Errorf("ACC-2: the client holds %v", h.payloads(endpointType))
			}
			if one, other := h.isAbsent(endpointType, "hidden-exists"), h.isAbsent(endpointType, "hidden-missing"); one != other || one == v.sotw {
				t.Errorf("ACC-2: told as removed: %v and %v", one, other)
			}
			if asked := p.askedFor(); !strings.Contains(asked, "open") || strings.Contains(asked, "hidden") {
				t.Errorf("ACC-2: the control plane was asked for %q", asked)
			}
			for _, fault := range h.found() {
				t.Error(fault)
			}
			r.consistent(t)
		})
	}
}

// Members of "*" and of globs are judged by their own names. After a reload that denies more, a
// client loses what it may not have any more, and with "*" all that it has from there.
func TestAccessMembers_ACC2_ACC3(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			p := newPlane(t)
			p.plain = true
			for _, name := range []string{"one", "two", "hidden"} {
				p.set(clusterType, name, true)
			}
			r := startRelay(t, denying(hidden), p.addr)
			c := joinAccess(t, v, r)
			h := c.common()
			c.subscribe(clusterType, []string{"*"}, nil)
			h.awaitHolding(t, clusterType, "one", "two")
			p.set(clusterType, "hidden", true)
			p.set(clusterType, "three", true)
			h.awaitHolding(t, clusterType, "one", "three", "two")

			r.mustReload(t, denying(hidden, `name == "two"`))
			backAfter(t, c, v)
			p.set(clusterType, "four", true)
			h.awaitHolding(t, clusterType, "four", "one", "three")

			r.mustReload(t, denying(`name == "*"`))
			backAfter(t, c, v)
			h.awaitHolding(t, clusterType)
			if !h.happens(func() bool { return h.errorOf(clusterType, "*") == codes.PermissionDenied }) {
				t.Errorf("ACC-2: the error of * is %v", h.errorOf(clusterType, "*"))
			}
			for _, fault := range h.found() {
				t.Error(fault)
			}
			r.consistent(t)
		})
	}
}

// backAfter waits until the relay ends the client's streams, and connects it again with what it
// holds. A client that polls just polls again.
func backAfter(t *testing.T, c xdsClient, v variant) {
	t.Helper()
	if v.rest {
		return
	}
	if !c.common().happens(func() bool { return !c.connected() }) {
		t.Fatal("ACC-2: the stream goes on although the rules say something else")
	}
	if s := status.Convert(endOf(c)); s.Code() != codes.Unavailable || s.Message() != narrowed {
		t.Errorf("ACC-2: the stream ended with %v", s.Err())
	}
	c.disconnect()
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
}

// A glob is judged as a glob, and its members by their names.
func TestAccessGlob_ACC2_ACC3(t *testing.T) {
	for _, v := range []variant{deltaADS, delta, sotwADS} {
		t.Run(v.name, func(t *testing.T) {
			p := newPlane(t)
			p.plain = true
			name := func(id string) string { return nameAt("a.test", listenerType, id) }
			for _, id := range []string{"d/one", "d/hidden", "other/one"} {
				p.set(listenerType, name(id), false)
			}
			r := startRelay(t, denying(hidden, `xdstp.id == "other/*"`), p.addr)
			c := joinAccess(t, v, r)
			h := c.common()
			c.subscribe(listenerType, []string{name("d/*"), name("other/*")}, nil)
			h.awaitHolding(t, listenerType, name("d/one"))
			if !h.happens(func() bool { return h.errorOf(listenerType, name("other/*")) == codes.PermissionDenied }) {
				t.Errorf("ACC-2: the error of the glob is %v", h.errorOf(listenerType, name("other/*")))
			}
			p.set(listenerType, name("d/hidden"), false)
			p.set(listenerType, name("d/two"), false)
			h.awaitHolding(t, listenerType, name("d/one"), name("d/two"))
			if asked := p.askedFor(); strings.Contains(asked, "other") {
				t.Errorf("ACC-2: the control plane was asked for %q", asked)
			}
			for _, fault := range h.found() {
				t.Error(fault)
			}
			r.consistent(t)
		})
	}
}

// Secrets are denied without a rule that allows them, whatever "otherwise" says.
func TestAccessSecrets_ACC4(t *testing.T) {
	for _, v := range []variant{deltaADS, sotwADS, sotw, restPoll} {
		t.Run(v.name, func(t *testing.T) {
			p := newPlane(t)
			p.plain = true
			p.set(secretType, "client/own", false)
			p.set(secretType, "other/own", false)
			r := startRelay(t, func(c *config.Config) { c.Access.Rules, c.Access.Otherwise = nil, config.Allow }, p.addr)
			c := joinAccess(t, v, r)
			h := c.common()
			c.subscribe(secretType, []string{"client/own", "other/own"}, nil)
			denied := func(name string) bool {
				return h.happens(func() bool { return h.errorOf(secretType, name) == codes.PermissionDenied })
			}
			if !denied("client/own") || !denied("other/own") {
				t.Errorf("ACC-4: %v and %v", h.errorOf(secretType, "client/own"), h.errorOf(secretType, "other/own"))
			}
			if asked := p.askedFor(); asked != "" {
				t.Errorf("ACC-4: the control plane was asked for %q", asked)
			}
			r.mustReload(t, func(c *config.Config) {
				c.Access.Rules = []config.AccessRule{{Name: "own", Match: `type == sds && name.startsWith(node.id + "/")`, Effect: config.Allow, Secrets: true}}
			})
			backAfter(t, c, v)
			h.awaitHolding(t, secretType, "client/own")
			if !denied("other/own") {
				t.Errorf("ACC-4: the error of the other secret is %v", h.errorOf(secretType, "other/own"))
			}
			if asked := p.askedFor(); strings.Contains(asked, "other") {
				t.Errorf("ACC-4: the control plane was asked for %q", asked)
			}
			r.consistent(t)
		})
	}
}

// A denied alternative denies the name. A redirect is content of its own name: who follows it is judged at its
// target.
func TestAccessAlternativesAndRedirects_ACC2_ACC3_LOC1(t *testing.T) {
	for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
		t.Run(v.name, func(t *testing.T) {
			p := newPlane(t)
			p.plain = true
			name := func(id string) string { return nameAt("a.test", endpointType, id) }
			for _, id := range []string{"open", "hidden"} {
				p.set(endpointType, name(id), false)
			}
			p.redirect(endpointType, name("x"), name("hidden"))
			r := startRelay(t, denying(hidden), p.addr)
			c := startNoted(t, v, r, "client")
			either := name("open") + "#alt=" + name("hidden")
			c.Subscribe(endpointType, name("x"), either)
			c.awaitContent(t, "a redirect", endpointType, name("x"), p.payloads(endpointType, map[string]bool{name("x"): true})[name("x")])
			c.Subscribe(endpointType, name("hidden"))
			for _, asked := range []string{either, name("hidden")} {
				c.await(t, asked, func() bool {
					return slices.ContainsFunc(c.since(0), func(ch notedChange) bool {
						return ch.name == asked && ch.kind == xdsclient.Failed && ch.failure.Code == codes.PermissionDenied
					})
				})
				if held := c.content(endpointType, asked); held != "" {
					t.Errorf("ACC-3: the client holds %q of %s", held, asked)
				}
			}
			if asked := p.askedFor(); strings.Contains(asked, "hidden") {
				t.Errorf("ACC-2: the control plane was asked for %q", asked)
			}
			r.consistent(t)
		})
	}
}
