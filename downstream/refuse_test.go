package downstream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// fails has the control plane report an error.
func (p *plane) fails(typeURL, name string, code codes.Code) {
	p.apply(0, &wire.Response{TypeURL: typeURL, Errors: []wire.ResourceError{{Name: name, Code: code}}})
}

const nobodys = "xdstp://nobody/envoy.config.endpoint.v3.ClusterLoadAssignment/x"

// Errors of servers in the state of the world.
func TestSotW_ERR1(t *testing.T) {
	runAll(t, []scenario{
		{"ERR-1 RES-3 ACK-2 of a type that is sent by what changed", func(h *harness) {
			h.opaque.set(endpointType, "1", "a")
			h.opaque.errors["b"] = codes.Unavailable
			c := h.stateOn(adsStream, false)
			c.asks(endpointType, "a", "b")
			first := c.wants("ClusterLoadAssignment a@1 !b=Unavailable")[0]
			c.ack(first)
			h.opaque.fails(endpointType, "a", codes.PermissionDenied)
			gone := c.wants("ClusterLoadAssignment !a=PermissionDenied")[0]
			if gone.VersionInfo == first.VersionInfo || gone.VersionInfo == "" || gone.Nonce == "" {
				h.Errorf("ACK-4: version %q after %q, nonce %q", gone.VersionInfo, first.VersionInfo, gone.Nonce)
			}
			h.opaque.fails(endpointType, "b", codes.NotFound)
			c.wants() // an acknowledgement is awaited
			c.nack(gone, "errors I know not")
			c.wants("ClusterLoadAssignment !b=NotFound")
			c.ack(c.last[endpointType])
			h.opaque.errors["b"] = codes.NotFound
			c.asks(endpointType, "a")
			c.wants()
			c.asks(endpointType, "a", "b")
			c.wants("ClusterLoadAssignment !b=NotFound") // who subscribes again is told again
		}},
		{"ERR-1 RES-2 in a list of everything", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.state()
			c.asks(clusterType)
			c.wants("Cluster a@1 b@1")
			h.opaque.fails(clusterType, "a", codes.Unavailable)
			c.wants("Cluster a@1 b@1 !a=Unavailable")
			h.opaque.fails(clusterType, "b", codes.NotFound)
			c.wants("Cluster a@1 !b=NotFound")
			h.opaque.fails(clusterType, "*", codes.Internal)
			c.wants("Cluster a@1 !=Internal") // SUB-4: it named nothing
			named := h.state()
			named.asks(clusterType, "*")
			named.wants("Cluster a@1 !*=Internal !a=Unavailable !b=NotFound")
		}},
		{"ERR-1 NAME-4 wrapped and bare, in the client's spelling", func(h *harness) {
			const endpoints = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/"
			name, other := endpoints+"x?a=1&b=2", endpoints+"x?b=2&a=1"
			h.a.errors[name] = codes.Unavailable
			for _, wrapped := range []bool{false, true} {
				c := h.stateOn(adsStream, wrapped)
				c.asks(endpointType, other)
				c.wants("ClusterLoadAssignment !" + other + "=Unavailable")
			}
		}},
		{"ERR-1 SUB-3 an incremental client that names nothing", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c, star := h.client(), h.client()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			star.subscribe(clusterType, "*")
			star.wants("Cluster +a=1")
			h.opaque.fails(clusterType, "*", codes.Internal)
			c.wants("Cluster !=Internal")
			star.wants("Cluster !*=Internal")
		}},
	})
}

// What the relay has to say itself.
func TestRefusals_LOC4_NAME1_OPS5_ERR1(t *testing.T) {
	t.Run("ERR-1 LOC-4 in the state of the world once, and again after it was not named", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(endpointType, "1", "a")
			c := h.state()
			c.asks(endpointType, nobodys)
			c.wants("ClusterLoadAssignment !" + nobodys + "=NotFound")
			c.asks(endpointType, "a", nobodys)
			c.wants("ClusterLoadAssignment a@1")
			c.asks(endpointType, "a")
			c.asks(endpointType, "a", nobodys)
			c.wants("ClusterLoadAssignment !" + nobodys + "=NotFound")
		})
	})
	t.Run("ERR-1 STR-7 what is withdrawn before it was told needs no word", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(endpointType, "1", "a")
			c := h.stateOn(adsStream, false)
			c.asks(endpointType, "a")
			first := c.wants("ClusterLoadAssignment a@1")[0]
			c.asks(endpointType, "a", nobodys)
			c.asks(endpointType, "a")
			h.opaque.set(endpointType, "2", "a")
			got := c.take()
			if len(got) == 0 || len(got[len(got)-1].ResourceErrors) > 1 {
				h.Errorf("after %v got %v", first, got)
			}
		})
	})
	t.Run("ERR-1 RES-9 errors that fit into no list go with more", func(t *testing.T) {
		const limit = 16 << 10
		bubble(t, func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			names := []string{"a"}
			for i := range 500 {
				names = append(names, fmt.Sprintf("xdstp://nobody/envoy.config.cluster.v3.Cluster/%d", i))
			}
			for _, asked := range [][]string{names, names[1:]} {
				c := h.stateOn(adsStream, false)
				c.asks(clusterType, asked...)
				told := map[string]bool{}
				for range 100 {
					got := c.take()
					if len(got) == 0 {
						break
					}
					for _, r := range got {
						if n := proto.Size(r); n > limit {
							h.Errorf("a response has %d bytes", n)
						}
						for _, e := range r.ResourceErrors {
							if told[e.ResourceName.Name] {
								h.Errorf("%q is told twice", e.ResourceName.Name)
							}
							told[e.ResourceName.Name] = true
						}
						c.ack(r)
					}
				}
				if len(told) != 500 {
					h.Errorf("told of %d names", len(told))
				}
			}
		}, func(c *Config) { c.MaxMessageSize = limit })
	})
	t.Run("OPS-5 ERR-1 incremental: what fits is served, what is beyond is refused", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(clusterType, "1", "0", "1", "2", "3")
			c := h.client()
			c.subscribe(clusterType, many(4)...)
			c.wants("Cluster -3 !3=ResourceExhausted", "Cluster +0=1 +1=1 +2=1")
			c.subscribe(listenerType, "l")
			c.wants("Listener -l !l=ResourceExhausted")
			c.subscribe(clusterType, "0") // again
			c.wants("Cluster +0=1")
			c.send(&request{TypeUrl: clusterType, ResourceNamesUnsubscribe: []string{"0"}, ResourceNamesSubscribe: []string{"3"}})
			c.wants("Cluster +3=1")
			if n := h.seen.refused[codes.ResourceExhausted]; n != 2 {
				h.Errorf("%d names were refused", n)
			}
		}, func(c *Config) { c.PerClient.Subscriptions = 3 })
	})
	t.Run("OPS-5 ERR-1 state of the world: what fits is served, and the rest once there is room", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(endpointType, "1", many(5)...)
			h.opaque.set(clusterType, "1", "x")
			c := h.state()
			c.asks(endpointType, many(5)...)
			c.wants("ClusterLoadAssignment !3=ResourceExhausted !4=ResourceExhausted", "ClusterLoadAssignment 0@1 1@1 2@1")
			c.asks(clusterType, "x")
			c.wants("Cluster !x=ResourceExhausted")
			c.asks(endpointType, "0", "1", "3", "4")
			c.wants("ClusterLoadAssignment 3@1")
			c.asks(endpointType, "4")
			c.wants("ClusterLoadAssignment 4@1")
			c.asks(clusterType, "x", "y")
			c.wants("Cluster x@1 !y=NotFound")
			if s := h.status(); s.Types[endpointType].Subscriptions != 1 {
				h.Errorf("status %+v", s)
			}
		}, func(c *Config) { c.PerClient.Subscriptions = 3 })
	})
	t.Run("ABS-4 OPS-5 of a flood nothing is told beyond twice the limit, and the stream goes on", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(endpointType, "1", many(3)...)
			c := h.state()
			c.asks(endpointType, many(9)...)
			h.quiet()
			var resources, told int
			for _, r := range c.take() {
				resources, told = resources+len(r.Resources), told+len(r.ResourceErrors)
			}
			if resources != 3 || told != 6 || h.seen.refused[codes.ResourceExhausted] != 6 {
				h.Errorf("%d resources, %d errors, %v refused", resources, told, h.seen.refused)
			}
			c.asks(clusterType, many(5)...) // of another type: there is room for none
			h.quiet()
			told = 0
			for _, r := range c.take() {
				told += len(r.ResourceErrors)
			}
			if told != 0 || h.seen.refused[codes.ResourceExhausted] != 11 {
				h.Errorf("%d errors, %v refused", told, h.seen.refused)
			}
			h.opaque.set(endpointType, "2", "0")
			c.wants("ClusterLoadAssignment 0@2")
		}, func(c *Config) { c.PerClient.Subscriptions = 3 })
	})
	t.Run("OPS-5 incremental: nothing is kept of refused names", func(t *testing.T) {
		bubble(t, func(h *harness) {
			c := h.client()
			for range 20 {
				c.subscribe(clusterType, many(6)...)
			}
			c.take()
			c.subscribe(clusterType, "9")
			c.wants("Cluster -9 !9=ResourceExhausted")
		}, func(c *Config) { c.PerClient.Subscriptions = 3 })
	})
	t.Run("LOC-4 ERR-1 REST-1 a poll that is held in vain ends with what is refused", func(t *testing.T) {
		restBubble(t, func(h *harness) {
			h.opaque.silent = true
			p := h.poller(endpointPath, "a", nobodys)
			p.poll().isHeld()
			h.advance(restWait)
			p.accepts("200 !" + nobodys + "=NotFound")
			p.poll().isHeld()
		})
	})
	t.Run("ABS-4 OPS-5 REST: a long name, bad parameters and a flood", func(t *testing.T) {
		restBubble(t, func(h *harness) {
			h.opaque.real(endpointType, "1", many(4)...)
			long := strings.Repeat("x", maxNameLength+1)
			h.opaque.real(endpointType, "1", "z")
			p := h.poller(endpointPath, long, "z")
			p.poll().accepts("200 z=1 !" + long + "=ResourceExhausted")
			p = h.poller(endpointPath, many(10)...)
			p.poll().accepts("200 0=1 1=1 2=1 !3=ResourceExhausted !4=ResourceExhausted !5=ResourceExhausted " +
				"!6=ResourceExhausted !7=ResourceExhausted !8=ResourceExhausted")
			if n := h.seen.refused[codes.ResourceExhausted]; n != 8 {
				h.Errorf("%d refusals counted, want 8", n)
			}
		}, func(c *Config) { c.PerClient.Subscriptions = 3 })
	})
	t.Run("OPS-5 ERR-1 REST", func(t *testing.T) {
		restBubble(t, func(h *harness) {
			h.opaque.real(endpointType, "1", many(4)...)
			p := h.poller(endpointPath, append(many(4), "0")...)
			p.poll().accepts("200 0=1 1=1 2=1 !3=ResourceExhausted")
			p.poll().isHeld()
		}, func(c *Config) { c.PerClient.Subscriptions = 3 })
	})
}

// Errors of servers in polls.
// A poll that is answered with errors alone has a version then, and would wait for
// everything else to be known before it got anything.
func TestREST_ErrorsDoNotStarve_ERR1_RES2(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.opaque.silent = true
		p := h.poller(clusterPath, "a", "b", "c")
		p.poll().isHeld()
		h.opaque.fails(clusterType, "a", codes.Unavailable)
		h.advance(mergeTime)
		p.isHeld()
		h.opaque.silent = false
		h.opaque.real(clusterType, "1", "b")
		p.accepts("200 b=1 !a=Unavailable")
	})
}

func TestREST_ERR1(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.opaque.real(clusterType, "1", "a", "b")
		p := h.poller(clusterPath)
		p.poll().wants("200 a=1 b=1")
		h.opaque.settle()
		before := p.poll().accepts("200 a=1 b=1")
		p.poll().isHeld()
		h.opaque.fails(clusterType, "a", codes.Unavailable)
		with := p.accepts("200 a=1 b=1 !a=Unavailable")
		if with.Nonce == before.Nonce || with.VersionInfo == before.VersionInfo {
			t.Errorf("ERR-1: nonce %q and version %q as without", with.Nonce, with.VersionInfo)
		}
		p.poll().isHeld() // it has seen the error
		h.opaque.fails(clusterType, "b", codes.NotFound)
		p.accepts("200 a=1 !a=Unavailable !b=NotFound")
		deaf := h.poller(clusterPath) // one that repeats no nonces
		deaf.poll().accepts("200 a=1 !a=Unavailable !b=NotFound")
		deaf.next.ResponseNonce = ""
		deaf.poll().isHeld()
		if m := "resourceErrors"; !strings.Contains(p.answer.Body.String(), m) {
			t.Errorf("VAR-5: no %s in %s", m, p.answer.Body)
		}
		p.poll()
		h.opaque.real(clusterType, "1", "b")
		p.accepts("200 a=1 b=1 !a=Unavailable")
	})
}

// TestRESTSilence_RES7 has a client that polls wait for what the control plane does not
// answer: it would take errors alone for the word that there is nothing.
func TestRESTSilence_RES7(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.opaque.errors["e"] = codes.Unavailable
		p := h.poller(endpointPath, "e")
		p.poll().isHeld()
		h.advance(restWait)
		p.wants("304")
		p.poll().isHeld()
		h.opaque.real(endpointType, "1", "e")
		p.accepts("200 e=1")
		h.opaque.errors["none"] = codes.NotFound
		h.poller(endpointPath, "none").poll().wants("200 !none=NotFound")
	})
}
