package gocontrolplane

import (
	"cmp"
	"context"
	"maps"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

const wildcard = "*"

// recorder counts what happens on the streams of all runs. The server calls it
// from the streams' goroutines.
type recorder struct {
	mu      sync.Mutex
	opened  int
	streams map[streamKey]*Stream // open ones
	nodes   map[string]int
	fetches map[string]int // by type URL; nil: none
	fetched map[string]int // by type URL; nil: none
	closed  Counts         // of the streams that are not open any more
	changed chan struct{}  // closed at the next change; nil: nobody waits
}

// streamKey tells streams apart: the servers of both variants number theirs
// from 1, in each run anew. All of one run are closed before the next begins.
type streamKey struct {
	delta bool
	id    int64
}

func newRecorder() *recorder {
	return &recorder{streams: make(map[streamKey]*Stream), nodes: make(map[string]int)}
}

// callbacks are what the server calls.
func (r *recorder) callbacks() serverv3.Callbacks {
	return serverv3.CallbackFuncs{
		StreamOpenFunc: func(_ context.Context, id int64, service string) error {
			r.open(streamKey{false, id}, service)
			return nil
		},
		DeltaStreamOpenFunc: func(_ context.Context, id int64, service string) error {
			r.open(streamKey{true, id}, service)
			return nil
		},
		StreamClosedFunc:      func(id int64, _ *corev3.Node) { r.close(streamKey{false, id}) },
		DeltaStreamClosedFunc: func(id int64, _ *corev3.Node) { r.close(streamKey{true, id}) },
		StreamRequestFunc: func(id int64, req *discoveryv3.DiscoveryRequest) error {
			r.update(streamKey{false, id}, func(s *Stream) { r.requested(s, req) })
			return nil
		},
		StreamDeltaRequestFunc: func(id int64, req *discoveryv3.DeltaDiscoveryRequest) error {
			r.update(streamKey{true, id}, func(s *Stream) { r.requestedDelta(s, req) })
			return nil
		},
		StreamResponseFunc: func(_ context.Context, id int64, _ *discoveryv3.DiscoveryRequest, resp *discoveryv3.DiscoveryResponse) {
			r.update(streamKey{false, id}, func(s *Stream) { s.sent(len(resp.GetResources()), 0) })
		},
		StreamDeltaResponseFunc: func(id int64, _ *discoveryv3.DeltaDiscoveryRequest, resp *discoveryv3.DeltaDiscoveryResponse) {
			r.update(streamKey{true, id}, func(s *Stream) { s.sent(len(resp.GetResources()), len(resp.GetRemovedResources())) })
		},
		FetchRequestFunc: func(_ context.Context, req *discoveryv3.DiscoveryRequest) error {
			r.count(&r.fetches, req)
			return nil
		},
		FetchResponseFunc: func(req *discoveryv3.DiscoveryRequest, _ *discoveryv3.DiscoveryResponse) {
			r.count(&r.fetched, req)
		},
	}
}

// count counts a REST request in one of the maps.
func (r *recorder) count(in *map[string]int, req *discoveryv3.DiscoveryRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *in == nil {
		*in = make(map[string]int)
	}
	(*in)[req.GetTypeUrl()]++
	r.wakeLocked()
}

func (r *recorder) open(key streamKey, service string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened++
	r.streams[key] = &Stream{ID: r.opened, Delta: key.delta, Service: service, Types: make(map[string]Subscriptions)}
	r.wakeLocked()
}

func (r *recorder) close(key streamKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed.add(r.streams[key].Counts)
	delete(r.streams, key)
	r.wakeLocked()
}

func (r *recorder) update(key streamKey, f func(*Stream)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.streams[key])
	r.wakeLocked()
}

func (r *recorder) wakeLocked() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// next gives a channel that is closed at the next change.
func (r *recorder) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// requestedDelta notes an incremental request; the caller holds mu.
func (r *recorder) requestedDelta(s *Stream, req *discoveryv3.DeltaDiscoveryRequest) {
	r.answered(s, req.GetNode(), req.GetResponseNonce(), req.GetErrorDetail())
	of, first := s.of(cmp.Or(req.GetTypeUrl(), s.Service))
	if first && len(req.GetResourceNamesSubscribe()) == 0 {
		of.Names[wildcard]++ // as the server reads it (SUB-3)
	}
	for _, name := range req.GetResourceNamesSubscribe() {
		of.Names[name]++
	}
	for _, name := range req.GetResourceNamesUnsubscribe() {
		delete(of.Names, name)
		of.Unsubscribed[name]++
	}
}

// requested notes a SotW request; the caller holds mu.
func (r *recorder) requested(s *Stream, req *discoveryv3.DiscoveryRequest) {
	r.answered(s, req.GetNode(), req.GetResponseNonce(), req.GetErrorDetail())
	url := cmp.Or(req.GetTypeUrl(), s.Service)
	of, _ := s.of(url)
	names := req.GetResourceNames()
	of.named = of.named || len(names) > 0
	s.Types[url] = of
	if !of.named {
		names = []string{wildcard} // SUB-2
	}
	next := make(map[string]int, len(names))
	for _, name := range names {
		next[name] = 1
	}
	for name := range of.Names {
		if next[name] == 0 {
			of.Unsubscribed[name]++
		}
	}
	clear(of.Names)
	maps.Copy(of.Names, next)
}

// answered notes the parts of a request that both variants have. A SotW request
// that changes subscriptions carries a nonce too and counts as an ACK.
func (r *recorder) answered(s *Stream, node *corev3.Node, nonce string, nack *statuspb.Status) {
	s.Requests++
	switch {
	case nack != nil:
		s.Nacks++
		s.Nack = nack.GetMessage()
	case nonce != "":
		s.Acks++
	}
	if s.Node == nil && node != nil {
		s.Node = node
		r.nodes[node.GetId()]++
	}
}

// of gives what the stream subscribes to of a type, and whether it never asked
// for the type before.
func (s *Stream) of(typeURL string) (subs Subscriptions, first bool) {
	subs, known := s.Types[typeURL]
	if !known {
		subs = Subscriptions{Names: make(map[string]int), Unsubscribed: make(map[string]int)}
		s.Types[typeURL] = subs
	}
	return subs, !known
}

func (s *Stream) sent(resources, removed int) {
	s.Responses++
	s.Resources += resources
	s.Removed += removed
}

func (r *recorder) stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Stats{
		Opened: r.opened, Nodes: maps.Clone(r.nodes), Counts: r.closed,
		Fetches: maps.Clone(r.fetches), Fetched: maps.Clone(r.fetched),
	}
	for _, open := range r.streams {
		one := *open
		one.Types = make(map[string]Subscriptions, len(open.Types))
		for url, of := range open.Types {
			one.Types[url] = Subscriptions{Names: maps.Clone(of.Names), Unsubscribed: maps.Clone(of.Unsubscribed)}
		}
		s.Streams = append(s.Streams, one)
		s.add(one.Counts)
	}
	sortStreams(s.Streams)
	return s
}

func (c *Counts) add(o Counts) {
	c.Requests += o.Requests
	c.Acks += o.Acks
	c.Nacks += o.Nacks
	c.Responses += o.Responses
	c.Resources += o.Resources
	c.Removed += o.Removed
}
