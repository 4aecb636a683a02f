package downstream

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

func TestREST_VAR5(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(h *harness)
	}{
		{"REST-1 a poll is answered at once, the next one when something changes", func(h *harness) {
			h.opaque.real(clusterType, "1", "a", "b")
			p := h.poller(clusterPath)
			first := p.poll().accepts("200 a=1 b=1")
			if first.TypeUrl != clusterType || first.VersionInfo == "" || first.Nonce == "" {
				h.Errorf("type %q, version %q, nonce %q", first.TypeUrl, first.VersionInfo, first.Nonce)
			}
			h.opaque.settle()
			p.poll().isHeld()
			h.advance(restWait / 2)
			p.isHeld()
			h.opaque.real(clusterType, "2", "b")
			if next := p.accepts("200 a=1 b=2"); next.VersionInfo == first.VersionInfo || next.Nonce == first.Nonce {
				h.Errorf("the same version %q or nonce %q for another content", next.VersionInfo, next.Nonce)
			}
			if n := h.seen.count("propagated"); n != 2 || h.seen.count("sent") != 2 || h.seen.resources != 4 {
				h.Errorf("%d propagations, %d responses with %d resources", n, h.seen.count("sent"), h.seen.resources)
			}
		}},
		{"REST-1 the wait ends with 304, a little early", func(h *harness) {
			h.opaque.real(clusterType, "1", "a")
			p := h.poller(clusterPath)
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.advance(restWait)
			p.wants("304")
			if p.took > restWait || p.took < restWait*9/10 {
				h.Errorf("held for %v, want %v less up to a tenth", p.took, restWait)
			}
			if h.seen.count("sent") != 1 || h.seen.count("opened") != 2 || h.seen.closed[codes.OK] != 2 {
				h.Errorf("events %v, ends %v", h.seen.events, h.seen.closed)
			}
		}},
		{"changes that come together are one answer", func(h *harness) {
			h.opaque.real(clusterType, "1", "a", "b")
			h.opaque.settle()
			p := h.poller(clusterPath)
			p.poll().accepts("200 a=1 b=1")
			h.opaque.settle()
			p.poll()
			h.opaque.real(clusterType, "2", "a")
			p.isHeld()
			h.opaque.real(clusterType, "3", "a", "b")
			p.accepts("200 a=3 b=3")
		}},
		{"RES-2 a removed cluster is missing from the list, and an empty list is one", func(h *harness) {
			h.opaque.real(clusterType, "1", "a", "b")
			p := h.poller(clusterPath)
			p.poll().accepts("200 a=1 b=1")
			h.opaque.settle()
			p.poll()
			h.opaque.unset(clusterType, "a")
			p.accepts("200 b=1")
			p.poll()
			h.opaque.unset(clusterType, "b")
			p.accepts("200 ")
			p.poll().isHeld()
			h.poller(clusterPath).poll().accepts("200 ")
		}},
		{"RES-2 a cold relay does not wipe a warm client", func(h *harness) {
			p := h.poller(clusterPath)
			p.next.VersionInfo = "of another replica"
			h.opaque.real(clusterType, "1", "a")
			p.poll().isHeld() // there may be more
			h.opaque.real(clusterType, "1", "b")
			p.isHeld()
			h.opaque.settle()
			h.opaque.real(clusterType, "2", "b")
			p.accepts("200 a=1 b=2")
		}},
		{"RES-2 nor does one whose control plane is away", func(h *harness) {
			h.opaque.silent = true
			p := h.poller(clusterPath)
			p.next.VersionInfo = "of another replica"
			p.poll().isHeld()
			h.advance(restWait)
			p.wants("304")
			cold := h.poller(clusterPath)
			cold.poll().isHeld()
			h.advance(restWait)
			cold.wants("304")
		}},
		{"RES-2 a nonce alone is that of a warm client too", func(h *harness) {
			h.opaque.real(clusterType, "1", "a")
			p := h.poller(clusterPath)
			p.next.ResponseNonce = "of another content"
			p.poll().isHeld()
		}},
		{"RES-2 a list of names waits until all are known", func(h *harness) {
			h.opaque.real(clusterType, "1", "a", "b")
			h.opaque.silent = true
			p := h.poller(clusterPath, "a", "b")
			p.next.VersionInfo = "of another replica"
			p.poll()
			h.opaque.real(clusterType, "2", "a")
			h.advance(mergeTime)
			p.isHeld()
			h.opaque.real(clusterType, "2", "b")
			p.accepts("200 a=2 b=2")
		}},
		{"ABS-3 a list of which nothing is known is never sent", func(h *harness) {
			h.other.silent = true
			h.router.scoped = func(*corev3.Node, string, keyer.Peer) (*cache.Store, error) { return h.other.store, nil }
			p := h.poller(clusterPath, "a", "b")
			p.next.VersionInfo = "of another replica"
			p.poll().isHeld()
			h.other.settle() // the names were waited for long enough
			h.advance(mergeTime)
			p.isHeld()
			h.other.real(clusterType, "1", "a")
			p.accepts("200 a=1")
		}},
		{"RES-3 what is there goes out, the rest when it comes", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a", "late", "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.opaque.real(endpointType, "2", "late")
			p.accepts("200 a=1 late=2")
			p.poll()
			h.opaque.unset(endpointType, "late")
			p.accepts("200 a=1")
			p.poll()
			h.opaque.unset(endpointType, "a")
			p.isHeld() // absence is no deletion
			h.advance(restWait)
			p.wants("304")
		}},
		{"SUB-4 no names are nothing of other types", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			p := h.poller(endpointPath)
			p.poll().isHeld()
			if len(h.opaque.asked) > 0 {
				h.Errorf("the control plane was asked for %v", h.opaque.asked)
			}
			h.advance(restWait)
			p.wants("304")
		}},
		{"SUB-1 the wildcard of other types has a name", func(h *harness) {
			h.opaque.real(endpointType, "1", "a", "b")
			h.poller(endpointPath, cache.Wildcard).poll().accepts("200 a=1 b=1")
		}},
		{"SUB-5 WARM-2 other names with the version of before are answered", func(h *harness) {
			h.opaque.real(endpointType, "1", "a", "b", "c")
			p := h.poller(endpointPath, "a", "b")
			first := p.poll().accepts("200 a=1 b=1")
			p.next.ResourceNames = []string{"a", "c"}
			p.poll().accepts("200 a=1") // c is not known yet
			p.poll().accepts("200 a=1 c=1")
			p.next.ResourceNames = []string{"b", "a"}
			if again := p.poll().accepts("200 a=1 b=1"); again.VersionInfo != first.VersionInfo {
				h.Errorf("ACK-4: version %q, was %q", again.VersionInfo, first.VersionInfo)
			}
		}},
		{"SUB-11 names stay subscribed to between polls", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			h.quiet()
			h.opaque.real(endpointType, "2", "a")
			p.poll().accepts("200 a=2")
			if n := h.opaque.asked["a"]; n != 1 {
				h.Errorf("the control plane was asked %d times", n)
			}
		}},
		{"RES-4 names of two authorities are one response", func(h *harness) {
			h.router.authorities["b"] = h.opaque.store
			ofB := strings.Replace(ofA("y"), "//a/", "//b/", 1)
			h.a.real(clusterType, "1", ofA("x"))
			h.opaque.real(clusterType, "1", ofB)
			p := h.poller(clusterPath, ofA("x"), ofB)
			p.poll().accepts("200 " + ofA("x") + "=1 " + ofB + "=1")
			p.poll()
			h.opaque.real(clusterType, "2", ofB)
			p.accepts("200 " + ofA("x") + "=1 " + ofB + "=2")
		}},
		{"DYN-1 ABS-4 a name with dynamic parameters is refused, and what stands under it without them stays", func(h *harness) {
			h.opaque.real(clusterType, "1", "a", "b")
			p := h.poller(clusterPath, "a")
			p.next.ResourceLocators = []*discovery.ResourceLocator{{Name: "b"}, {Name: "a", DynamicParameters: map[string]string{"env": "prod"}}}
			p.poll().accepts("200 a=1 b=1 !a=InvalidArgument")
			if n := h.seen.refused[codes.InvalidArgument]; n != 1 {
				h.Errorf("%d refusals were counted", n)
			}
		}},
		{"LOC-4 NAME-1 ERR-1 names that the relay does not serve are errors, told once, and said once in the log", func(h *harness) {
			h.opaque.real(clusterType, "1", "a")
			p := h.poller(clusterPath, "a", "xdstp://nobody/"+strings.TrimPrefix(clusterType, typePrefix)+"/x", "xdstp://")
			p.poll().accepts("200 a=1 !xdstp://=InvalidArgument !xdstp://nobody/envoy.config.cluster.v3.Cluster/x=NotFound")
			if h.seen.refused[codes.NotFound] != 1 || h.seen.refused[codes.InvalidArgument] != 1 {
				h.Errorf("refused %v", h.seen.refused)
			}
			none := h.poller(clusterPath, "xdstp://")
			none.poll().accepts("200 !xdstp://=InvalidArgument")
			none.poll().isHeld()
			endpoints := h.poller(endpointPath, "xdstp://")
			endpoints.poll().accepts("200 !xdstp://=InvalidArgument")
			endpoints.poll().isHeld()
		}},
		{"ACK-3 what was rejected is not sent again until it changes", func(h *harness) {
			h.opaque.real(clusterType, "1", "a")
			p := h.poller(clusterPath)
			accepted := p.poll().accepts("200 a=1")
			h.opaque.settle()
			p.poll()
			h.opaque.real(clusterType, "2", "a")
			p.rejects("200 a=2", "no good")
			h.rejects(clusterType, 0)
			p.poll().isHeld()
			h.rejects(clusterType, 1)
			s := h.status()
			if n := s.Types[clusterType].LastNack; n == nil || n.Message != "no good" || n.Code != "InvalidArgument" || n.SystemVersion == "" || s.Types[clusterType].Nacks != 1 {
				h.Errorf("ACK-7: the admin port shows %+v", s.Types[clusterType])
			}
			if got := h.router.rejections(); len(got) != 1 || !strings.HasPrefix(got[0], clusterType) || !strings.HasSuffix(got[0], "n: no good") {
				h.Errorf("ACK-7: the router was told %q", got)
			}
			h.advance(restWait)
			p.wants("304")
			p.next.ErrorDetail = nil // told; the version stays the accepted one
			p.poll().isHeld()
			h.rejects(clusterType, 1) // as long as it goes on polling
			if p.next.VersionInfo != accepted.VersionInfo || h.seen.count("nacked") != 1 {
				h.Errorf("ACK-1: %d rejections", h.seen.count("nacked"))
			}
			h.opaque.real(clusterType, "3", "a")
			p.accepts("200 a=3")
			p.poll().isHeld()
			h.rejects(clusterType, 0)
		}},
		{"ACK-1 a poll with warnings rejects nothing", func(h *harness) {
			h.opaque.real(clusterType, "1", "a")
			p := h.poller(clusterPath)
			r := p.poll().accepts("200 a=1")
			p.next.ErrorDetail = &status.Status{Message: `[{"key": "a", "warn": "old field"}]`}
			p.next.VersionInfo = r.GetVersionInfo()
			h.opaque.settle()
			p.poll().isHeld()
			h.rejects(clusterType, 0)
			if s := h.status().Types[clusterType]; s.LastNack != nil || h.seen.count("nacked") != 0 || h.seen.count("warned") != 1 {
				h.Errorf("%d rejections, %d warnings, last %+v", h.seen.count("nacked"), h.seen.count("warned"), s.LastNack)
			}
			if got := h.router.rejections(); len(got) != 0 {
				h.Errorf("the control plane is told of %q", got)
			}
		}},
		{"ACK-3 the rejection of something older does not hold back what is new", func(h *harness) {
			h.opaque.real(clusterType, "1", "a")
			p := h.poller(clusterPath)
			p.poll().rejects("200 a=1", "no good")
			h.opaque.settle()
			h.opaque.real(clusterType, "2", "a")
			p.poll().accepts("200 a=2")
			if h.seen.count("nacked") != 1 || len(h.router.rejections()) != 0 {
				h.Errorf("ACK-7: %d rejections, the router was told %q", h.seen.count("nacked"), h.router.rejections())
			}
		}},
		{"RES-13 resources are wrapped for who announces it, in its own spelling", func(h *harness) {
			h.a.real(clusterType, "1", ofA("x?p=1&q=2"))
			p := h.poller(clusterPath, ofA("x?q=2&p=1"))
			p.poll().accepts("200 " + ofA("x?p=1&q=2") + "=1")
			p.next.VersionInfo, p.next.ResponseNonce = "", ""
			p.next.Node.ClientFeatures = []string{wire.FeatureWrapping}
			p.poll().accepts("200 " + ofA("x?q=2&p=1") + "@1")
		}},
		{"VAR-8 REST-2 what JSON cannot say is an error, said once and then held", func(h *harness) {
			h.opaque.set(clusterType, "1", "a") // with a payload that is no Cluster
			p := h.poller(clusterPath)
			const message = `resource "a" of type "` + clusterType + `" cannot be sent as JSON: a payload is not what its type "` + clusterType + `" says`
			p.poll().refusedWith(http.StatusInternalServerError, message)
			p.poll().isHeld()
			h.advance(restWait)
			p.refusedWith(http.StatusInternalServerError, message)
			if h.seen.count("unsendable") != 2 || h.seen.closed[codes.Internal] != 2 {
				h.Errorf("events %v, ends %v", h.seen.events, h.seen.closed)
			}
			p.poll().isHeld()
			h.opaque.real(clusterType, "2", "a")
			p.accepts("200 a=2")
			h.opaque.settle()
			p.poll().isHeld()
		}},
		{"OPS-4 held polls end with 304 over time, new ones are sent away", func(h *harness) {
			h.opaque.real(clusterType, "1", "a")
			var all []*restPoller
			for range 20 {
				p := h.poller(clusterPath)
				p.poll().accepts("200 a=1")
				p.poll().isHeld()
				all = append(all, p)
			}
			began := time.Now()
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				h.server.Drain(h.Context(), restWait/4)
			}()
			synctest.Wait()
			late := h.poller(clusterPath)
			late.poll().refusedWith(http.StatusServiceUnavailable, "draining: connect to another replica")
			if late.answer.Header().Get("Retry-After") != "1" || late.answer.Header().Get("Connection") != "close" {
				h.Errorf("headers %v", late.answer.Header())
			}
			<-drained
			if d := time.Since(began); d > restWait/4 {
				h.Errorf("drained in %v", d)
			}
			times := map[time.Duration]bool{}
			for _, p := range all {
				p.wants("304")
				times[p.took] = true
				if p.answer.Header().Get("Connection") != "close" {
					h.Error("a client is not told to go elsewhere")
				}
			}
			if len(times) < 10 {
				h.Errorf("20 polls ended at %d different times", len(times))
			}
		}},
		{"OPS-4 what does not end is cut off", func(h *harness) {
			p := h.poller(endpointPath, "a")
			p.poll().isHeld()
			h.server.Stop()
			p.refusedWith(http.StatusServiceUnavailable, "draining: connect to another replica")
			late := h.poller(clusterPath)
			late.poll().refusedWith(http.StatusServiceUnavailable, "draining: connect to another replica")
		}},
		{"a client that goes away leaves nothing", func(h *harness) {
			p := h.poller(endpointPath, "a")
			p.poll().isHeld()
			if h.opaque.store.Clients() != 1 {
				h.Errorf("%d clients", h.opaque.store.Clients())
			}
			p.cancel()
			h.quiet()
			if h.opaque.store.Clients() != 0 || len(h.server.Clients(nil, nil)) != 0 || h.seen.closed[codes.Canceled] != 1 {
				h.Errorf("%d clients, %d polls, ends %v", h.opaque.store.Clients(), len(h.server.Clients(nil, nil)), h.seen.closed)
			}
		}},
		{"the admin port shows who is held", func(h *harness) {
			p := h.poller(endpointPath, "a", "b")
			p.poll().isHeld()
			s := h.status()
			if s.Variant != REST || s.Service != endpointPath || s.Node != "n" || s.Cluster != "cluster of n" || s.Peer == "" ||
				s.Scope != "scope of n" || s.Types[endpointType].Subscriptions != 2 {
				h.Errorf("status %+v", s)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { restBubble(t, tt.run) })
	}
}

// A name that does not exist is not kept between polls (RES-17): each poll has the server asked
// for it. Until the answer comes, the client that was told of the error has all that there is.
func TestREST_REST1_RES17_errorsBetweenPolls(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(h *harness, p *restPoller)
	}{
		{"the same error is not news", func(h *harness, p *restPoller) {
			p.poll().isHeld()
			h.advance(restWait)
			p.wants("304")
			p.poll().isHeld()
		}},
		{"nor is it for a client that rejected the answer", func(_ *harness, p *restPoller) {
			p.next.ErrorDetail, p.next.VersionInfo = &status.Status{Code: int32(codes.InvalidArgument), Message: "no good"}, ""
			p.poll().isHeld()
		}},
		{"nor while the relay distrusts versions", func(h *harness, p *restPoller) {
			h.router.distrusted = map[*cache.Store]bool{h.opaque.store: true}
			p.poll().accepts("200 a=1 !c=NotFound")
			p.poll().accepts("200 a=1 !b=NotFound !c=NotFound")
			p.poll().isHeld()
		}},
		{"ABS-3 other content does not wait for the name", func(h *harness, p *restPoller) {
			h.opaque.silent = true
			p.poll().isHeld()
			h.opaque.real(endpointType, "2", "a")
			p.accepts("200 a=2 !c=NotFound")
			p.poll().isHeld()
		}},
		{"another error is told with the answer", func(h *harness, p *restPoller) {
			h.opaque.errors["b"] = codes.PermissionDenied
			p.poll().accepts("200 a=1 !b=PermissionDenied !c=NotFound")
		}},
		{"the resource is", func(h *harness, p *restPoller) {
			h.opaque.silent = true
			p.poll().isHeld()
			h.opaque.real(endpointType, "1", "b")
			p.accepts("200 a=1 b=1 !c=NotFound")
		}},
		{"without an answer errors are told at the end of the poll, and then held", func(h *harness, p *restPoller) {
			h.opaque.silent = true
			p.poll().isHeld()
			h.advance(restWait)
			p.accepts("200 a=1 !c=NotFound")
			p.poll().isHeld()
			h.advance(restWait)
			p.wants("304")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			restBubble(t, func(h *harness) {
				h.opaque.real(endpointType, "1", "a")
				h.opaque.errors["b"], h.opaque.errors["c"] = codes.NotFound, codes.NotFound
				h.state().asks(endpointType, "c") // which keeps it subscribed to
				p := h.poller(endpointPath, "a", "b", "c")
				p.poll().accepts("200 a=1 !b=NotFound !c=NotFound")
				tt.run(h, p)
			})
		})
	}
}

// While the control plane is away the first list waits until peers were asked for what it lacks: the next poll shows a
// version, and restored content does not go to it any more.
func TestREST_SUR1_waitsForPeers(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.opaque.silent = true
		h.opaque.restore(clusterType, "1", "a", "b")
		peers := h.opaque.store.Peers()
		h.poller(clusterPath, "a", "gone").poll().accepts("200 a=1")
		peers.Helped(true)
		before := peers.Wants()
		p := h.poller(clusterPath, "a", "gone")
		p.poll().isHeld()
		peers.Asked(before) // for others
		h.advance(mergeTime)
		p.isHeld()
		peers.Asked(peers.Wants())
		p.accepts("200 a=1")
		h.poller(clusterPath, "a", "b").poll().accepts("200 a=1 b=1")
		late := h.poller(clusterPath, "a", "gone")
		late.poll().isHeld()
		h.advance(restWait)
		late.accepts("200 a=1")
		away := h.poller(clusterPath, "a", "gone")
		away.poll().isHeld()
		peers.Helped(false)
		peers.Asked(0)
		away.accepts("200 a=1")
	})
}

// So does the first poll of any other type: its answer would have what others asked for before, and its version keeps the
// rest from the client until the control plane is back.
func TestREST_SUR1_waitsForPeersOfOtherTypes(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(h *harness, peers cache.Peers, p *restPoller)
	}{
		{"what peers have comes with the first answer", func(h *harness, peers cache.Peers, p *restPoller) {
			p.next.ResourceNames = []string{"a", "b", "c"}
			p.poll().isHeld()
			h.opaque.restore(endpointType, "1", "b")
			h.advance(mergeTime)
			p.isHeld() // another peer may have c
			peers.Asked(peers.Wants())
			p.accepts("200 a=1 b=1")
		}},
		{"ABS-3 what they lack holds the rest up no longer than that", func(_ *harness, peers cache.Peers, p *restPoller) {
			p.poll().isHeld()
			peers.Asked(peers.Wants())
			p.accepts("200 a=1")
		}},
		{"ABS-3 nor longer than the poll", func(h *harness, _ cache.Peers, p *restPoller) {
			p.poll().isHeld()
			h.advance(restWait)
			p.accepts("200 a=1")
		}},
		{"a control plane that is back ends the wait", func(_ *harness, peers cache.Peers, p *restPoller) {
			p.poll().isHeld()
			peers.Helped(false)
			peers.Asked(0)
			p.accepts("200 a=1")
		}},
		{"a client that lacks nothing does not wait", func(h *harness, _ cache.Peers, p *restPoller) {
			p.poll().isHeld()
			h.poller(endpointPath, "a").poll().accepts("200 a=1")
		}},
		{"nor does one that shows a version: it is not sent what peers have", func(h *harness, _ cache.Peers, p *restPoller) {
			p.next.VersionInfo = "of another replica"
			p.poll().isHeld()
			h.opaque.real(endpointType, "2", "a")
			p.accepts("200 a=2")
		}},
		{"errors wait too, and give the client no version without the rest", func(h *harness, peers cache.Peers, _ *restPoller) {
			h.opaque.errors["gone"] = codes.NotFound
			h.opaque.silent = false
			h.state().asks(endpointType, "gone")
			h.quiet()
			h.opaque.silent = true
			p := h.poller(endpointPath, "b", "gone")
			p.poll().isHeld()
			h.opaque.restore(endpointType, "1", "b")
			peers.Asked(peers.Wants())
			p.accepts("200 b=1 !gone=NotFound")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			restBubble(t, func(h *harness) {
				h.opaque.silent = true
				h.opaque.restore(endpointType, "1", "a")
				peers := h.opaque.store.Peers()
				peers.Helped(true)
				tt.run(h, peers, h.poller(endpointPath, "a", "b"))
			})
		})
	}
}

// What an earlier process left replaces nothing that a client presents, and holds nothing else up
// where absence is no deletion (RES-3).
func TestREST_SUR1_restored(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(h *harness)
	}{
		{"a client that presents nothing gets it", func(h *harness) {
			p := h.poller(endpointPath, "a", "gone")
			p.poll().accepts("200 a=1 gone=1")
			p.poll().isHeld()
			h.opaque.real(endpointType, "2", "a")
			p.accepts("200 a=2")
			p.poll().isHeld()
		}},
		{"one that presents something gets the rest", func(h *harness) {
			p := h.poller(endpointPath, "a", "gone")
			p.next.VersionInfo = "of another replica"
			p.poll().isHeld()
			h.opaque.real(endpointType, "2", "a")
			first := p.accepts("200 a=2")
			p.poll().isHeld()
			h.opaque.real(endpointType, "1", "gone")
			if both := p.accepts("200 a=2 gone=1"); both.VersionInfo == first.VersionInfo || both.Nonce == first.Nonce {
				h.Errorf("version %q and nonce %q with and without a resource", both.VersionInfo, both.Nonce)
			}
			p.poll().isHeld()
		}},
		{"its error alone is no answer", func(h *harness) {
			h.opaque.errors["b"] = codes.NotFound
			h.opaque.silent = false
			p := h.poller(endpointPath, "b", "gone")
			p.next.VersionInfo = "of another replica"
			p.poll().isHeld()
			h.opaque.real(endpointType, "1", "gone")
			p.accepts("200 gone=1 !b=NotFound")
		}},
		{"members too", func(h *harness) {
			p := h.poller(endpointPath, cache.Wildcard, "a")
			p.next.VersionInfo = "of another replica"
			p.poll().isHeld()
			h.opaque.real(endpointType, "2", "a")
			p.accepts("200 a=2")
			p.poll().isHeld()
			h.opaque.real(endpointType, "1", "gone")
			p.accepts("200 a=2 gone=1")
		}},
		{"RES-2 a list of all waits", func(h *harness) {
			p := h.poller(clusterPath, "a", "gone")
			p.next.VersionInfo = "of another replica"
			p.poll().isHeld()
			h.opaque.real(clusterType, "2", "a")
			h.advance(mergeTime)
			p.isHeld()
			h.opaque.unset(clusterType, "gone")
			p.accepts("200 a=2")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			restBubble(t, func(h *harness) {
				h.opaque.silent = true
				for _, typeURL := range []string{endpointType, clusterType} {
					h.opaque.restore(typeURL, "1", "a", "gone")
				}
				tt.run(h)
			})
		})
	}
}

// A digest stands behind the server's system_version_info, and counts alone (ACK-4).
func TestREST_ACK4_REST1_label(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.opaque.real(clusterType, "1", "a")
		p := h.poller(clusterPath)
		version, ok := strings.CutPrefix(p.poll().accepts("200 a=1").VersionInfo, "system-1/")
		if !ok {
			t.Errorf("version_info is %q", version)
		}
		h.opaque.settle()
		for _, known := range []string{version, "of-another-replica/" + version} {
			again := h.poller(clusterPath)
			again.next.VersionInfo = known
			again.poll().isHeld()
		}
		behind := h.poller(clusterPath)
		behind.next.VersionInfo = "system-1"
		behind.poll().accepts("200 a=1")
	})
}

// At v2's paths a client is served v3's types, and v2's not at all (VAR-9).
func TestREST_V2_VAR9(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.opaque.real(clusterType, "1", "b")
		old, now := h.poller(v2ClusterPath), h.poller(v2ClusterPath)
		now.next.TypeUrl = clusterType
		if r := now.poll().accepts("200 b=1"); r.TypeUrl != clusterType {
			t.Errorf("the answer is one of %s", r.TypeUrl)
		}
		old.poll().refusedWith(400, `resources of API v2 are not served as JSON: poll with type_url "`+clusterType+`", or ask for `+v2ClusterType+` on a gRPC stream`)
	})
}

// What a stream would end with, a poll is answered with (REST-2).
func TestREST_Refusals_REST2_VAR10_OPS5(t *testing.T) {
	for _, tt := range []struct {
		name, path, body string
		code             int
		message          string
		end              codes.Code
	}{
		{"malformed", clusterPath, `{"node":`, 400, "the body is no DiscoveryRequest in JSON: the text ends too early", codes.InvalidArgument},
		{"VAR-10 another type", clusterPath, `{"type_url":"` + endpointType + `"}`, 400,
			`type_url must be "` + clusterType + `", that of its list collections, or left out at ` + clusterPath + `, and is "` + endpointType + `"`, codes.InvalidArgument},
		{"OPS-5 a body beyond the limit", clusterPath, `"` + strings.Repeat("x", 100_000) + `"`, 413, "the body is larger than 98304 bytes", codes.ResourceExhausted},
		{"AGG-2 a client that is refused", clusterPath, `{"node":{"id":"stranger"},"resource_names":["a"]}`, 403, "", codes.PermissionDenied},
		{"a node that cannot be used", clusterPath, `{"node":{"id":"odd"},"resource_names":["a"]}`, 400, "odd node", codes.InvalidArgument},
		{"an authority that cannot be looked up now", clusterPath, `{"resource_names":["` + ofA("x") + `"]}`, 503, "not now", codes.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			restBubble(t, func(h *harness) {
				stranger := &rules.RefusedError{}
				h.router.scoped = func(n *corev3.Node, _ string, _ keyer.Peer) (*cache.Store, error) {
					switch n.GetId() {
					case "stranger":
						return nil, stranger
					case "odd":
						return nil, errOdd
					}
					return h.opaque.store, nil
				}
				h.router.failure = errNotNow
				p := h.poller(tt.path)
				p.post([]byte(tt.body))
				message := tt.message
				if message == "" {
					message = stranger.Error()
				}
				p.refusedWith(tt.code, message)
				if h.seen.closed[tt.end] != 1 || h.seen.count("opened") != 1 {
					h.Errorf("ends %v", h.seen.closed)
				}
				if (p.answer.Header().Get("Retry-After") != "") != (tt.code == http.StatusServiceUnavailable) {
					h.Errorf("headers %v", p.answer.Header())
				}
			}, func(c *Config) { c.MaxReceiveSize, c.PerClient.Subscriptions = 96<<10, 3 })
		})
	}
}

// More polls than there may be are told to come later, and leave room again.
func TestREST_TooMany_OPS5(t *testing.T) {
	restBubble(t, func(h *harness) {
		one, two := h.poller(endpointPath, "a"), h.poller(endpointPath, "b")
		one.poll().isHeld()
		two.poll().isHeld()
		three := h.poller(endpointPath, "c")
		three.poll().refusedWith(http.StatusTooManyRequests, "2 polls are held already")
		if three.answer.Header().Get("Retry-After") != "1" || h.seen.closed[codes.ResourceExhausted] != 1 || h.opaque.asked["c"] != 0 {
			h.Errorf("headers %v, ends %v", three.answer.Header(), h.seen.closed)
		}
		one.cancel()
		h.quiet()
		three.poll().isHeld()
	}, func(c *Config) { c.MaxPolls = 2 })
}

// Without a wait polls are answered at once, whatever there is.
func TestREST_NoWait_REST1(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.opaque.real(endpointType, "1", "a")
		p := h.poller(endpointPath, "a")
		p.poll().wants("304") // not known yet
		p.poll().accepts("200 a=1")
		p.poll().wants("304")
		if p.took != 0 {
			h.Errorf("held for %v", p.took)
		}
	}, func(c *Config) { c.RESTWait = 0 })
}

var (
	errOdd    = errors.New("odd node")
	errNotNow = errors.New("not now")
)
