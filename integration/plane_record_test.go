package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// resourceInSotw is announced by clients that understand wrapped resources.
const resourceInSotw = "xds.config.supports-resource-in-sotw"

// planeRecord is what a stream that is open did until now.
type planeRecord struct {
	node         string
	shown        *corev3.Node
	requests     []*discovery.DeltaDiscoveryRequest
	sotwRequests []*discovery.DiscoveryRequest
	subscribed   map[string]map[string]int // incremental: how often each name was asked for
	subs         map[string][]string
	nacks, sent  int
	records      map[string]*typeRecord
}

// typeRecord is what was said of one type on one stream.
type typeRecord struct {
	requests  []plane.Request
	responses []plane.Response
}

// streamsNow are the open streams' records.
func (p *testPlane) streamsNow() []planeRecord {
	open, responses, requests := p.Open(), p.Responses(""), p.Requests("") // in this order: no answer is missed
	var all []planeRecord
	for _, st := range open {
		r := planeRecord{
			node: st.Node.GetId(), shown: st.Node, subs: st.Names,
			subscribed: make(map[string]map[string]int), records: make(map[string]*typeRecord),
		}
		for _, s := range responses {
			if s.Stream == st.Number {
				r.sent++
				x := r.of(s.TypeURL)
				x.responses = append(x.responses, s)
			}
		}
		for _, q := range requests {
			if q.Stream == st.Number {
				r.take(q)
			}
		}
		all = append(all, r)
	}
	return all
}

func (r *planeRecord) of(typeURL string) *typeRecord {
	if r.records[typeURL] == nil {
		r.records[typeURL] = new(typeRecord)
	}
	return r.records[typeURL]
}

func (r *planeRecord) take(q plane.Request) {
	x := r.of(q.TypeURL)
	x.requests = append(x.requests, q)
	if q.Rejects {
		r.nacks++
	}
	switch m := q.Message.(type) {
	case *discovery.DiscoveryRequest:
		r.sotwRequests = append(r.sotwRequests, m)
	case *discovery.DeltaDiscoveryRequest:
		r.requests = append(r.requests, m)
		if r.subscribed[q.TypeURL] == nil {
			r.subscribed[q.TypeURL] = make(map[string]int)
		}
		for _, n := range q.Subscribe {
			r.subscribed[q.TypeURL][n]++
		}
	}
}

// unanswered are the nonces of responses until some time that no request has.
func (x *typeRecord) unanswered(until time.Time) []string {
	var nonces []string
	for _, s := range x.responses {
		if !s.At.After(until) && !slices.ContainsFunc(x.requests, func(q plane.Request) bool { return q.Nonce == s.Nonce }) {
			nonces = append(nonces, s.Nonce)
		}
	}
	return nonces
}

// find is the place of a nonce among the responses, or -1.
func (x *typeRecord) find(nonce string) int {
	return slices.IndexFunc(x.responses, func(s plane.Response) bool { return s.Nonce == nonce })
}

// faults are what the client must not do on a stream, and did.
func (x *typeRecord) faults() (all []string) {
	fault := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	names, answered, accepted, presents := make(map[string]bool), make(map[string]bool), "", ""
	for i, q := range x.requests {
		of := q.TypeURL
		if q.Delta {
			for _, n := range x.again(i, names) {
				fault("SUB-10: asked for while it was subscribed to: %s %s", of, n)
			}
		} else if sorted := slices.Sorted(slices.Values(q.Subscribe)); len(slices.Compact(sorted)) < len(q.Subscribe) {
			fault("SUB-10: a name is listed twice in a request for %s: %q", of, q.Subscribe)
		}
		at, last := x.find(q.Nonce), x.find(presents)
		switch {
		case q.Nonce == "" && (q.Delta || presents == ""):
		case q.Nonce == "":
			fault("STR-9: a request for %s without nonce after one with %q", of, presents)
		case at < 0:
			fault("STR-3: nonce %q of %s was never given on this stream", q.Nonce, of)
		case q.Delta && answered[q.Nonce]:
			fault("STR-8: nonce %q of %s is answered twice", q.Nonce, of)
		case q.Delta:
			answered[q.Nonce] = true
		case at < last:
			fault("STR-9: a request for %s with nonce %q after one with %q", of, q.Nonce, presents)
		case at == last: // it is no ACK: it must ask for something else than the one before it
			if q.VersionInfo != accepted {
				fault("ACK-2: a request for %s with version_info %q, want %q", of, q.VersionInfo, accepted)
			}
			if sameNames(x.requests[i-1].Subscribe, q.Subscribe) {
				fault("STR-8: nonce %q of %s is answered twice", q.Nonce, of)
			}
		default:
			if at > last+1 {
				fault("STR-8: nonce %q of %s is not answered", x.responses[at-1].Nonce, of)
			}
			presents = q.Nonce
			if !q.Rejects {
				accepted = x.responses[at].Version
			}
			if q.VersionInfo != accepted {
				fault("ACK-2: %s is answered with version_info %q, want %q", of, q.VersionInfo, accepted)
			}
		}
	}
	return all
}

// again are the names that an incremental request asks for though names has them already.
func (x *typeRecord) again(i int, names map[string]bool) (again []string) {
	q := x.requests[i]
	for _, n := range keysOf(q.Unsubscribe) {
		delete(names, n)
	}
	subscribe := keysOf(q.Subscribe)
	if i == 0 && len(subscribe)+len(q.Unsubscribe) == 0 {
		subscribe = []string{"*"} // SUB-3
	}
	for _, n := range subscribe {
		if names[n] {
			again = append(again, n)
		}
		names[n] = true
	}
	return again
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// checkClient reports what the plane's client did wrong on any stream, and waits until it has
// answered everything that was sent so far on those that are open. A relay whose clients poll asks on and on, and its
// last answer waits for them (ACK-7).
func (p *testPlane) checkClient(t testing.TB) {
	t.Helper()
	began := time.Now()
	waitFor(t, "an answer to every response", func() bool {
		return !slices.ContainsFunc(p.streamsNow(), func(r planeRecord) bool {
			for _, x := range r.records {
				if len(x.unanswered(began)) > 0 {
					return true
				}
			}
			return false
		})
	})
	for _, st := range p.streamsNow() {
		if st.nacks > 0 {
			t.Errorf("the relay rejected %d responses", st.nacks)
		}
	}
	for _, fault := range p.faults() {
		t.Error(fault)
	}
}

// faults are those of all streams and polls that there were.
func (p *testPlane) faults() (all []string) {
	type streamType struct {
		stream  int
		typeURL string
	}
	said := make(map[streamType]*typeRecord)
	begun := make(map[int]bool)
	for _, q := range p.Requests("") {
		if m := q.Message.(interface{ GetNode() *corev3.Node }); m.GetNode() == nil && (q.REST || !begun[q.Stream]) {
			all = append(all, fmt.Sprintf("STR-2: the first request of stream %d has no node", q.Stream))
		}
		begun[q.Stream] = true
		if q.REST {
			continue
		}
		k := streamType{q.Stream, q.TypeURL}
		if said[k] == nil {
			said[k] = new(typeRecord)
		}
		said[k].requests = append(said[k].requests, q)
	}
	for _, s := range p.Responses("") {
		if x := said[streamType{s.Stream, s.TypeURL}]; x != nil {
			x.responses = append(x.responses, s)
		}
	}
	for _, x := range said {
		all = append(all, x.faults()...)
	}
	return all
}

// awaitSubscribed waits until streams have asked for so many names of each type,
// counted over all streams.
func (p *testPlane) awaitSubscribed(t testing.TB, want map[string]int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%v names asked for", want), func() bool {
		got := make(map[string]int)
		for _, st := range p.Open() {
			for typeURL, names := range st.Names {
				got[typeURL] += len(names)
			}
		}
		for typeURL, n := range want {
			if got[typeURL] < n {
				return false
			}
		}
		return true
	})
}
