package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// planeRecord is what a stream did until now.
type planeRecord struct {
	node              string
	shown             *corev3.Node
	requests          []*discovery.DeltaDiscoveryRequest
	sotwRequests      []*discovery.DiscoveryRequest
	subscribed        map[string]map[string]int // incremental: how often each name was asked for
	subs              map[string][]string
	acks, nacks, sent int
	unanswered        []string
}

// streamsNow copies the open streams' records.
func (p *plane) streamsNow() []planeRecord {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []planeRecord
	for st := range p.streams {
		all = append(all, st.record())
	}
	return all
}

func (st *planeStream) record() planeRecord {
	r := planeRecord{
		node: st.node, shown: st.shown, acks: st.acks, nacks: st.nacks, sent: st.sent,
		requests: slices.Clone(st.requests), sotwRequests: slices.Clone(st.sotwRequests),
		subscribed: make(map[string]map[string]int), subs: make(map[string][]string),
	}
	for url, t := range st.types {
		r.subs[url] = slices.Sorted(maps.Keys(t.subs))
		for _, a := range t.answers {
			if !a.answered {
				r.unanswered = append(r.unanswered, url+" "+a.nonce)
			}
		}
	}
	for _, q := range st.requests {
		for _, n := range q.GetResourceNamesSubscribe() {
			if r.subscribed[q.GetTypeUrl()] == nil {
				r.subscribed[q.GetTypeUrl()] = make(map[string]int)
			}
			r.subscribed[q.GetTypeUrl()][n]++
		}
	}
	return r
}

// deltaAnswered checks an ACK or NACK: each response has one (STR-8).
func (p *plane) deltaAnswered(st *planeStream, t *planeType, r *discovery.DeltaDiscoveryRequest) {
	if r.GetErrorDetail() != nil {
		st.nacks++
	} else {
		st.acks++
	}
	switch at := t.find(r.GetResponseNonce()); {
	case at < 0:
		p.reportLocked("STR-8: nonce %q of %s was never given", r.GetResponseNonce(), r.GetTypeUrl())
	case t.answers[at].answered:
		p.reportLocked("STR-8: nonce %q of %s is answered twice", r.GetResponseNonce(), r.GetTypeUrl())
	default:
		t.answers[at].answered = true
	}
}

// sotwAnswered checks that a request carries the latest nonce that the client
// has shown to know (STR-9), and takes the first request with a nonce as its ACK
// or NACK (STR-8, ACK-2).
func (p *plane) sotwAnswered(st *planeStream, t *planeType, r *discovery.DiscoveryRequest) {
	typeURL, nonce := r.GetTypeUrl(), r.GetResponseNonce()
	at := t.find(nonce)
	switch {
	case nonce == "" && t.presents == "":
		return
	case nonce == "":
		p.reportLocked("STR-9: a request for %s without nonce after one with %q", typeURL, t.presents)
		return
	case at < 0:
		p.reportLocked("STR-3: nonce %q of %s was never given on this stream", nonce, typeURL)
		return
	case at < t.find(t.presents):
		p.reportLocked("STR-9: a request for %s with nonce %q after one with %q", typeURL, nonce, t.presents)
		return
	}
	if t.answers[at].answered {
		p.sotwRepeated(st, t, r)
		return
	}
	if at > 0 && !t.answers[at-1].answered {
		p.reportLocked("STR-8: nonce %q of %s is not answered", t.answers[at-1].nonce, typeURL)
	}
	t.presents, t.answers[at].answered = nonce, true
	if r.GetErrorDetail() != nil {
		st.nacks++
	} else {
		st.acks++
		t.accepted = t.answers[at].version
	}
	if r.GetVersionInfo() != t.accepted {
		p.reportLocked("ACK-2: %s is answered with version_info %q, want %q", typeURL, r.GetVersionInfo(), t.accepted)
	}
}

// sotwRepeated checks a request that is no ACK: it must ask for something else
// than the one before it.
func (p *plane) sotwRepeated(st *planeStream, t *planeType, r *discovery.DiscoveryRequest) {
	if r.GetVersionInfo() != t.accepted {
		p.reportLocked("ACK-2: a request for %s with version_info %q, want %q", r.GetTypeUrl(), r.GetVersionInfo(), t.accepted)
	}
	if sameNames(st.lastSotw(r.GetTypeUrl()).GetResourceNames(), r.GetResourceNames()) {
		p.reportLocked("STR-8: nonce %q of %s is answered twice", r.GetResponseNonce(), r.GetTypeUrl())
	}
}

// lastSotw is a type's request before the one that is looked at.
func (st *planeStream) lastSotw(typeURL string) *discovery.DiscoveryRequest {
	for _, r := range slices.Backward(st.sotwRequests) {
		if r.GetTypeUrl() == typeURL {
			return r
		}
	}
	return nil
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// find is the place of a nonce among the answers, or -1.
func (t *planeType) find(nonce string) int {
	return slices.IndexFunc(t.answers, func(a planeAnswer) bool { return a.nonce == nonce })
}

func (p *plane) reportLocked(format string, args ...any) {
	p.violated = append(p.violated, fmt.Sprintf(format, args...))
}

// checkClient reports what the plane's client did wrong, and waits until it has
// answered everything.
func (p *plane) checkClient(t testing.TB) {
	t.Helper()
	waitFor(t, "an answer to every response", func() bool {
		return !slices.ContainsFunc(p.streamsNow(), func(r planeRecord) bool { return len(r.unanswered) > 0 })
	})
	for _, st := range p.streamsNow() {
		if st.nacks > 0 {
			t.Errorf("the relay rejected %d responses", st.nacks)
		}
		for _, r := range st.sotwRequests {
			names := slices.Sorted(slices.Values(r.GetResourceNames()))
			if len(slices.Compact(slices.Clone(names))) < len(names) {
				t.Errorf("SUB-10: a name is listed twice in a request for %s: %q", r.GetTypeUrl(), names)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.again) > 0 {
		t.Errorf("SUB-10: asked for while it was subscribed to: %q", p.again)
	}
	for _, v := range p.violated {
		t.Error(v)
	}
}

// awaitSubscribed waits until streams have asked for so many names of each type,
// counted over all streams.
func (p *plane) awaitSubscribed(t testing.TB, want map[string]int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%v names asked for", want), func() bool {
		got := make(map[string]int)
		for _, st := range p.streamsNow() {
			for url, names := range st.subs {
				got[url] += len(names)
			}
		}
		for url, n := range want {
			if got[url] < n {
				return false
			}
		}
		return true
	})
}

// openedStreams counts the streams from the beginning.
func (p *plane) openedStreams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}
