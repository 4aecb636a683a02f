package relay

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// leakPlane is a control plane of resources that have owners. It speaks incremental ADS, with globs,
// aliases and the wildcard.
type leakPlane struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer

	mu      sync.Mutex
	has     map[string]map[string]*owned // by type and name
	changed chan struct{}                // closed and replaced at every change
	asked   map[string]bool              // names that it ever was asked for
}

// owned is a resource.
type owned struct {
	version int
	payload *anypb.Any
	aliases []string
	inStar  bool
}

func newLeakPlane() *leakPlane {
	return &leakPlane{has: make(map[string]map[string]*owned), changed: make(chan struct{}), asked: make(map[string]bool)}
}

// put adds or changes a resource, or takes it away if r is nil. An alias is of the last that has it.
func (p *leakPlane) put(typeURL, name string, r *owned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has[typeURL] == nil {
		p.has[typeURL] = make(map[string]*owned)
	}
	if delete(p.has[typeURL], name); r != nil {
		for _, other := range p.has[typeURL] {
			other.aliases = slices.DeleteFunc(other.aliases, func(a string) bool { return slices.Contains(r.aliases, a) })
		}
		p.has[typeURL][name] = r
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// asking is what a stream asked for of one type.
type asking struct {
	subs  map[string]bool
	known map[string]int
	owed  map[string]bool
}

// DeltaAggregatedResources serves a stream.
func (p *leakPlane) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	requests := make(chan *discovery.DeltaDiscoveryRequest)
	go func() {
		defer close(requests)
		for {
			q, err := g.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- q:
			case <-g.Context().Done():
				return
			}
		}
	}()
	types := make(map[string]*asking)
	nonce := 0
	for {
		p.mu.Lock()
		changed := p.changed
		var due []*discovery.DeltaDiscoveryResponse
		for _, typeURL := range slices.Sorted(maps.Keys(types)) {
			if r := p.dueLocked(typeURL, types[typeURL]); r != nil {
				due = append(due, r)
			}
		}
		p.mu.Unlock()
		for _, r := range due {
			nonce++
			r.Nonce = fmt.Sprint(nonce)
			if err := g.Send(r); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case q, more := <-requests:
			if !more {
				return nil
			}
			p.take(types, q)
		}
	}
}

func (p *leakPlane) take(types map[string]*asking, q *discovery.DeltaDiscoveryRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := types[q.GetTypeUrl()]
	if a == nil {
		a = &asking{subs: make(map[string]bool), known: make(map[string]int), owed: make(map[string]bool)}
		types[q.GetTypeUrl()] = a
	}
	for name, version := range q.GetInitialResourceVersions() {
		var n int
		if _, err := fmt.Sscan(version, &n); err != nil {
			n = -1
		}
		a.known[name] = n
	}
	for _, name := range q.GetResourceNamesUnsubscribe() {
		delete(a.subs, name)
		delete(a.owed, name)
	}
	for _, name := range q.GetResourceNamesSubscribe() {
		a.subs[name], a.owed[name], p.asked[name] = true, true, true
	}
}

// dueLocked is what a stream lacks of a type; nil: nothing.
func (p *leakPlane) dueLocked(typeURL string, a *asking) *discovery.DeltaDiscoveryResponse {
	resp := &discovery.DeltaDiscoveryResponse{TypeUrl: typeURL}
	met := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(p.has[typeURL])) {
		r := p.has[typeURL][name]
		by := append([]string{name, keyer.GlobOf(name)}, r.aliases...)
		if r.inStar {
			by = append(by, "*")
		}
		covered, owed := false, false
		for _, b := range by {
			covered, owed = covered || a.subs[b], owed || a.owed[b] && b != "*"
			met[b] = true
		}
		if covered && (owed || a.known[name] != r.version) {
			a.known[name] = r.version
			resp.Resources = append(resp.Resources, &discovery.Resource{
				Name: name, Version: fmt.Sprint(r.version), Aliases: slices.Clone(r.aliases), Resource: r.payload,
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.known)) {
		if p.has[typeURL][name] == nil {
			delete(a.known, name)
			resp.RemovedResources = append(resp.RemovedResources, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.owed)) {
		if !met[name] && name != "*" && !slices.Contains(resp.RemovedResources, name) {
			resp.RemovedResources = append(resp.RemovedResources, name)
		}
	}
	answers := len(a.owed) > 0
	clear(a.owed)
	if !answers && len(resp.Resources)+len(resp.RemovedResources) == 0 {
		return nil
	}
	return resp
}
