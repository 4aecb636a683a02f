package downstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// wanting is a client that rejects listeners of which it does not have the cluster, as Envoy does. Its listener "l1" needs
// the cluster "c1". It has a stream for all types or one for each.
type wanting struct {
	h        *harness
	streams  []answering
	clusters map[string]time.Time // when it accepted them
	serving  map[string]time.Time // likewise, of listeners
	nacks    int
	sent     []time.Duration // when it was sent listeners, since it began
	begun    time.Time
}

// answering is a stream of it, in either form.
type answering interface {
	// answers judges what came since the last time, and gives the answers, which are to be sent.
	answers(w *wanting) []func()
}

type (
	deltaAnswers struct{ *client }
	stateAnswers struct{ *stateClient }
)

// wantingForms are the streams that such a client has.
var wantingForms = map[string]func(h *harness, node string) []answering{
	"incremental, ads": func(h *harness, node string) []answering { return []answering{deltaAsks(h, deltaADSMethod, node)} },
	"incremental, per type": func(h *harness, node string) []answering {
		return []answering{deltaAsks(h, listenersMethod, node), deltaAsks(h, clustersMethod, node)}
	},
	"sotw, ads": func(h *harness, node string) []answering { return []answering{stateAsks(h, adsStream, node)} },
	"sotw, per type": func(h *harness, node string) []answering {
		return []answering{stateAsks(h, streamListeners, node), stateAsks(h, streamClusters, node)}
	},
}

const (
	deltaADSMethod  = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	listenersMethod = "/envoy.service.listener.v3.ListenerDiscoveryService/DeltaListeners"
	clustersMethod  = "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters"
	streamListeners = "/envoy.service.listener.v3.ListenerDiscoveryService/StreamListeners"
	streamClusters  = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters"
)

// typesOn are the types of the client that a method serves.
func typesOn(method string) []string {
	switch {
	case strings.Contains(method, "Listeners"):
		return []string{listenerType}
	case strings.Contains(method, "Clusters"):
		return []string{clusterType}
	}
	return []string{clusterType, listenerType}
}

func deltaAsks(h *harness, method, id string) answering {
	h.Helper()
	c := h.deltaOn(method)
	for i, typeURL := range typesOn(method) {
		r := &request{TypeUrl: typeURL, ResourceNamesSubscribe: []string{"*"}}
		if i == 0 {
			r.Node = node(id)
		}
		c.send(r)
	}
	return deltaAnswers{c}
}

func stateAsks(h *harness, method, id string) answering {
	h.Helper()
	c := h.stateOn(method, false)
	c.node = node(id)
	for _, typeURL := range typesOn(method) {
		c.asks(typeURL)
	}
	return stateAnswers{c}
}

func (h *harness) wanting(form, node string) *wanting {
	h.Helper()
	return &wanting{
		h: h, streams: wantingForms[form](h, node),
		clusters: map[string]time.Time{}, serving: map[string]time.Time{}, begun: time.Now(),
	}
}

// judge takes resources, and reports whether the client accepts all of them. As in Envoy, the good ones of a list serve.
func (w *wanting) judge(typeURL string, names []string) (accepted bool) {
	accepted = true
	if typeURL == listenerType {
		w.sent = append(w.sent, time.Since(w.begun))
	}
	for _, name := range names {
		switch _, has := w.clusters["c"+name[1:]]; {
		case typeURL == clusterType:
			if _, had := w.clusters[name]; !had {
				w.clusters[name] = time.Now()
			}
		case has:
			if _, had := w.serving[name]; !had {
				w.serving[name] = time.Now()
			}
		default:
			accepted = false
		}
	}
	if !accepted {
		w.nacks++
	}
	return accepted
}

func (c deltaAnswers) answers(w *wanting) (out []func()) {
	for _, r := range c.take() {
		var names []string
		for _, x := range r.Resources {
			names = append(names, x.Name)
		}
		if w.judge(r.TypeUrl, names) {
			out = append(out, func() { c.ack(r) })
		} else {
			out = append(out, func() { c.nack(r, "unknown cluster") })
		}
	}
	return out
}

func (c stateAnswers) answers(w *wanting) (out []func()) {
	for _, r := range c.take() {
		var names []string
		for _, x := range r.Resources {
			name, _, _ := strings.Cut(string(x.Value), "@")
			names = append(names, name)
		}
		if w.judge(r.TypeUrl, names) {
			out = append(out, func() { c.ack(r) })
		} else {
			out = append(out, func() { c.nack(r, "unknown cluster") })
		}
	}
	return out
}

// settle answers all that came. What the client judged first on one stream comes last from another: streams do not keep
// an order.
func (w *wanting) settle() {
	w.h.Helper()
	for {
		all := make([][]func(), len(w.streams))
		some := false
		for i, s := range w.streams {
			all[i] = s.answers(w)
			some = some || len(all[i]) > 0
		}
		if !some {
			return
		}
		for _, answers := range slices.Backward(all) {
			for _, answer := range answers {
				answer()
			}
			w.h.quiet()
		}
	}
}

// passes lets time pass, and answers meanwhile.
func (w *wanting) passes(d time.Duration) {
	w.h.Helper()
	const step = 10 * time.Millisecond
	for range d / step {
		w.h.advance(step)
		w.settle()
	}
}

// eachWanting plays something with each form of such a client.
func eachWanting(t *testing.T, play func(h *harness, form string)) {
	t.Helper()
	for form := range wantingForms {
		t.Run(form, func(t *testing.T) { bubble(t, func(h *harness) { play(h, form) }) })
	}
}

// Listeners that come before their clusters are rejected. Each is offered again once the client has its cluster, soon.
func TestListenersBeforeClusters_ACK3(t *testing.T) {
	eachWanting(t, func(h *harness, form string) {
		const n = 15
		c := h.wanting(form, "one")
		c.settle()
		for i := range n {
			h.opaque.set(listenerType, "1", fmt.Sprint("l", i))
			if i%2 == 0 {
				c.settle()
			} // else the client judges both before its first answer comes
			h.opaque.set(clusterType, "1", fmt.Sprint("c", i))
			c.settle()
			c.passes(20 * time.Millisecond)
		}
		c.passes(2 * time.Second)
		var waits []time.Duration
		for i := range n {
			at, serves := c.serving[fmt.Sprint("l", i)]
			if !serves {
				h.Errorf("listener %d does not serve", i)
				continue
			}
			waits = append(waits, at.Sub(c.clusters[fmt.Sprint("c", i)]))
		}
		if slices.Sort(waits); len(waits) == n && (waits[n/2] > 150*time.Millisecond || waits[n-1] > time.Second) {
			h.Errorf("after their clusters the listeners serve after %v", waits)
		}
		if c.nacks < n/2 {
			h.Errorf("%d rejections: nothing came before its cluster", c.nacks)
		}
		if form == "incremental, ads" && h.seen.events["offered"] == 0 {
			h.Error("nothing counts as offered again")
		}
		was := c.nacks
		if c.passes(time.Minute); c.nacks != was {
			h.Errorf("%d rejections more of what serves", c.nacks-was)
		}
	})
}

// A listener that is bad for good costs ten rejections in a minute at most, though the client accepts a new cluster each
// second and the control plane repeats the listener.
func TestBadForGood_ACK3(t *testing.T) {
	eachWanting(t, func(h *harness, form string) {
		c := h.wanting(form, "one")
		c.settle()
		h.opaque.set(clusterType, "1", "c0")
		h.opaque.set(listenerType, "1", "l0")
		c.settle()
		was := c.nacks
		h.opaque.set(listenerType, "1", "lbad")
		c.settle()
		for i := range 60 {
			h.opaque.set(clusterType, "1", fmt.Sprint("c", i+1))
			c.settle()
			h.opaque.set(listenerType, "1", "l0", "lbad")
			c.passes(time.Second)
		}
		if n := c.nacks - was; n > 10 || n < 8 {
			h.Errorf("%d rejections of it; the client was sent listeners at %v", n, c.sent)
		}
		if _, serves := c.serving["l0"]; !serves {
			h.Error("the good listener does not serve")
		}
	})
}

// What a client accepts on one stream is no reason to offer another client what that rejects.
func TestOtherClientsAccept_ACK3(t *testing.T) {
	for _, form := range []string{"incremental, per type", "sotw, per type"} {
		t.Run(form, func(t *testing.T) {
			bubble(t, func(h *harness) {
				one := h.wanting(form, "one")
				h.opaque.set(clusterType, "1", "c0")
				h.opaque.set(listenerType, "1", "lbad")
				one.settle()
				one.passes(time.Minute)
				was := one.nacks
				other := h.wanting(form, "other")
				other.settle()
				other.passes(time.Second)
				if one.settle(); one.nacks != was {
					h.Errorf("%d rejections more, as another node accepted a cluster", one.nacks-was)
				}
				again := h.wanting(form, "one") // as after a reconnect: the same node
				again.settle()
				again.passes(time.Second)
				if one.settle(); one.nacks != was+1 {
					h.Errorf("%d rejections more, as another stream of the node accepted a cluster, want 1", one.nacks-was)
				}
			})
		})
	}
}

// siblings keeps nothing of clients that reject nothing, nor of those that have left.
func TestSiblingsForget_ACK3(t *testing.T) {
	bubble(t, func(h *harness) {
		c := h.wanting("incremental, per type", "one")
		h.opaque.set(clusterType, "1", "c0")
		h.opaque.set(listenerType, "1", "lbad")
		c.settle()
		s := &h.server.shared.siblings
		if len(s.rejecting) != 1 || len(s.accepted) != 1 {
			h.Errorf("%d nodes reject and %d have accepted, want one", len(s.rejecting), len(s.accepted))
		}
		c.passes(2 * acceptedWindow)
		if len(s.rejecting) != 1 || len(s.accepted)+len(s.before) != 0 {
			h.Errorf("after a while %d nodes reject, want one, and %d have accepted", len(s.rejecting), len(s.accepted)+len(s.before))
		}
		h.opaque.unset(listenerType, "lbad")
		c.settle()
		if c.passes(time.Second); len(s.rejecting) != 0 {
			h.Error("the client rejects nothing any more, and is kept")
		}
		h.opaque.set(listenerType, "1", "lbad")
		c.settle()
		if len(s.rejecting) != 1 {
			h.Error("the client rejects something, and is not known")
		}
		c.streams[0].(deltaAnswers).cancel()
		if h.quiet(); len(s.rejecting) != 0 {
			h.Error("a client that has left is kept")
		}
	})
}
