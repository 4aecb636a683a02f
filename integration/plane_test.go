package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// plane is a control plane made for faults: it knows globs and wildcards exactly,
// can be killed and come back, and answers in any order and in any number of
// parts. What go-control-plane can do is tested against go-control-plane.
type plane struct {
	addr    string
	options []grpc.ServerOption

	mu      sync.Mutex
	rand    *rand.Rand // nil: answers whole and in order
	held    bool       // no answers until release
	types   map[string]map[string]entry
	version int
	streams map[*planeStream]struct{}
	opened  int
	again   []string // what a stream asked for while it was subscribed to it
	server  *grpc.Server
	serving chan struct{}

	discovery.UnimplementedAggregatedDiscoveryServiceServer
}

// entry is one resource of the plane.
type entry struct {
	version string
	inStar  bool // part of what "*" means
	payload []byte
}

// planeStream is one stream towards the plane.
type planeStream struct {
	node  string
	send  chan *discovery.DeltaDiscoveryResponse
	types map[string]*planeType
	acked chan struct{} // one slot

	requests []*discovery.DeltaDiscoveryRequest
	sent     []*discovery.DeltaDiscoveryResponse
	nonce    int
	acks     int
	nacks    int
	kill     chan struct{}
}

type planeType struct {
	subs  map[string]bool
	known map[string]string // version told
}

func newPlane(t *testing.T, options ...grpc.ServerOption) *plane {
	t.Helper()
	p := &plane{options: options, types: make(map[string]map[string]entry), streams: make(map[*planeStream]struct{})}
	lis := listen(t)
	p.addr = lis.Addr().String()
	p.start(lis)
	t.Cleanup(p.stop)
	return p
}

func (p *plane) start(lis net.Listener) {
	s := grpc.NewServer(p.options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(s, p)
	serving := make(chan struct{})
	p.mu.Lock()
	p.server, p.serving = s, serving
	p.mu.Unlock()
	go func() {
		defer close(serving)
		_ = s.Serve(lis) // ends with stop
	}()
}

// stop kills the plane as a crash does.
func (p *plane) stop() {
	p.mu.Lock()
	s, serving := p.server, p.serving
	p.server = nil
	p.mu.Unlock()
	if s != nil {
		s.Stop()
		<-serving
	}
}

// restart brings it back at the same address, with the contents it has now.
func (p *plane) restart(t testing.TB) {
	t.Helper()
	lis, err := net.Listen("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	p.start(lis)
}

// breakStreams ends the streams while the server stays.
func (p *plane) breakStreams() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for st := range p.streams {
		close(st.kill)
		delete(p.streams, st)
	}
}

// DeltaAggregatedResources serves a stream.
func (p *plane) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	st := &planeStream{
		send: make(chan *discovery.DeltaDiscoveryResponse, 1<<14), types: make(map[string]*planeType),
		kill: make(chan struct{}), acked: make(chan struct{}, 1),
	}
	p.mu.Lock()
	p.streams[st] = struct{}{}
	p.opened++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.streams, st)
		p.mu.Unlock()
	}()
	requests := make(chan error, 1)
	go func() {
		for {
			r, err := g.Recv()
			if err != nil {
				requests <- err
				return
			}
			p.request(st, r)
		}
	}()
	for {
		select {
		case r := <-st.send:
			if err := g.Send(r); err != nil {
				return err
			}
		case err := <-requests:
			return err
		case <-st.kill:
			return status.Error(codes.Unavailable, "killed")
		}
	}
}

func (p *plane) request(st *planeStream, r *discovery.DeltaDiscoveryRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(st.requests) == 0 {
		st.node = r.GetNode().GetId()
	}
	st.requests = append(st.requests, r)
	if r.ResponseNonce != "" {
		if r.ErrorDetail != nil {
			st.nacks++
		} else {
			st.acks++
		}
		select {
		case st.acked <- struct{}{}:
		default:
		}
	}
	t := st.types[r.TypeUrl]
	if t == nil {
		t = &planeType{subs: make(map[string]bool), known: make(map[string]string)}
		st.types[r.TypeUrl] = t
	}
	for _, n := range r.ResourceNamesUnsubscribe {
		delete(t.subs, n)
		for known := range t.known {
			if !t.covers(known, p.types[r.TypeUrl][known]) {
				delete(t.known, known)
			}
		}
	}
	fresh := &planeType{subs: make(map[string]bool)}
	for _, n := range r.ResourceNamesSubscribe {
		if t.subs[n] {
			p.again = append(p.again, r.TypeUrl+" "+n)
		}
		t.subs[n], fresh.subs[n] = true, true
	}
	if len(fresh.subs) > 0 {
		p.answer(st, r.TypeUrl, t, fresh, r.InitialResourceVersions)
	}
}

// covers reports whether subscriptions mean a name.
func (t *planeType) covers(name string, e entry) bool {
	if t.subs[name] || (e.inStar && t.subs["*"]) {
		return true
	}
	g := keyer.GlobOf(name)
	return g != "" && t.subs[g]
}

// answer sends what new subscriptions ask for.
func (p *plane) answer(st *planeStream, typeURL string, t, fresh *planeType, versions map[string]string) {
	var add []*discovery.Resource
	var remove []string
	said := make(map[string]bool)
	content := p.types[typeURL]
	for _, n := range slices.Sorted(maps.Keys(content)) {
		e := content[n]
		if !fresh.covers(n, e) {
			continue
		}
		t.known[n] = e.version
		said[n] = true
		if g := keyer.GlobOf(n); g != "" {
			said[g] = true
		}
		if versions[n] != e.version {
			add = append(add, resource(typeURL, n, e))
		}
	}
	for n := range versions {
		if e, ok := content[n]; !ok || !t.covers(n, e) {
			remove = append(remove, n)
			said[n] = true
		}
	}
	for n := range fresh.subs {
		if n != "*" && !said[n] {
			remove = append(remove, n)
		}
	}
	if len(add)+len(remove) > 0 || fresh.subs["*"] {
		p.push(st, typeURL, add, remove)
	}
}

// push sends resources and removals, in parts and in any order if the plane is
// random. That there is nothing is said too: "*" is always answered.
func (p *plane) push(st *planeStream, typeURL string, add []*discovery.Resource, remove []string) {
	parts := 1
	if p.rand != nil && len(add)+len(remove) > 0 {
		p.rand.Shuffle(len(add), func(i, j int) { add[i], add[j] = add[j], add[i] })
		parts = 1 + p.rand.IntN(3)
	}
	for i := range parts {
		st.nonce++
		r := &discovery.DeltaDiscoveryResponse{
			TypeUrl: typeURL, Nonce: strconv.Itoa(st.nonce), SystemVersionInfo: fmt.Sprint("v", p.version),
			Resources: add[len(add)*i/parts : len(add)*(i+1)/parts],
		}
		if i == parts-1 {
			r.RemovedResources = remove
		}
		if parts > 1 && len(r.Resources)+len(r.RemovedResources) == 0 {
			continue
		}
		st.sent = append(st.sent, r)
		if !p.held {
			st.send <- r
		}
	}
}

// hold keeps answers back until release.
func (p *plane) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// release sends what was held back, of every stream, in the order that shuffle
// gives it.
func (p *plane) release(shuffle func([]*discovery.DeltaDiscoveryResponse)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	for st := range p.streams {
		if shuffle != nil {
			shuffle(st.sent)
		}
		for _, r := range st.sent {
			st.send <- r
		}
	}
}

func resource(typeURL, name string, e entry) *discovery.Resource {
	return &discovery.Resource{Name: name, Version: e.version, Resource: &anypb.Any{TypeUrl: typeURL, Value: e.payload}}
}

// payloadOf is a payload with a field that no type knows: it must come through.
func payloadOf(name string, version int) []byte {
	return append([]byte{0xfa, 0x3f, byte(len(name) + 8)}, fmt.Appendf(nil, "%s%08d", name, version)...)
}

// set adds or changes a resource, and tells every stream that asked for it.
func (p *plane) set(typeURL, name string, inStar bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	e := entry{version: strconv.Itoa(p.version), inStar: inStar, payload: payloadOf(name, p.version)}
	if p.types[typeURL] == nil {
		p.types[typeURL] = make(map[string]entry)
	}
	if old, ok := p.types[typeURL][name]; ok {
		e.inStar = old.inStar
	}
	p.types[typeURL][name] = e
	for st := range p.streams {
		if t := st.types[typeURL]; t != nil && t.covers(name, e) {
			t.known[name] = e.version
			p.push(st, typeURL, []*discovery.Resource{resource(typeURL, name, e)}, nil)
		}
	}
}

// unset removes a resource.
func (p *plane) unset(typeURL, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.types[typeURL][name]
	if !ok {
		return
	}
	p.version++
	delete(p.types[typeURL], name)
	for st := range p.streams {
		if t := st.types[typeURL]; t != nil && t.covers(name, e) {
			delete(t.known, name)
			p.push(st, typeURL, nil, []string{name})
		}
	}
}

// holds is what a direct client with these subscriptions would hold: version and
// payload by name.
func (p *plane) holds(typeURL string, subs map[string]bool) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := make(map[string]string)
	t := &planeType{subs: make(map[string]bool)}
	for n := range subs {
		k, err := keyer.Key(n)
		if err != nil {
			panic(err)
		}
		t.subs[k] = true
	}
	for n, e := range p.types[typeURL] {
		if t.covers(n, e) {
			want[n] = e.version + " " + string(e.payload)
		}
	}
	return want
}

// streamsNow copies the open streams' records.
func (p *plane) streamsNow() []planeRecord {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []planeRecord
	for st := range p.streams {
		r := planeRecord{node: st.node, acks: st.acks, nacks: st.nacks, sent: len(st.sent),
			subscribed: make(map[string]map[string]int), subs: make(map[string][]string)}
		r.requests = slices.Clone(st.requests)
		for url, t := range st.types {
			r.subs[url] = slices.Sorted(maps.Keys(t.subs))
		}
		for _, q := range st.requests {
			for _, n := range q.ResourceNamesSubscribe {
				if r.subscribed[q.TypeUrl] == nil {
					r.subscribed[q.TypeUrl] = make(map[string]int)
				}
				r.subscribed[q.TypeUrl][n]++
			}
		}
		all = append(all, r)
	}
	return all
}

type planeRecord struct {
	node              string
	requests          []*discovery.DeltaDiscoveryRequest
	subscribed        map[string]map[string]int // how often each name was asked for
	subs              map[string][]string
	acks, nacks, sent int
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

// askedAgain lists what streams asked for although they were subscribed to it
// (SUB-10).
func (p *plane) askedAgain() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.again)
}

// openedStreams counts the streams from the beginning.
func (p *plane) openedStreams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}
