package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

// plane is a control plane made for faults: it knows globs and wildcards exactly,
// can be killed and come back, and answers in any order and in any number of
// parts. It serves every variant from the same contents, and watches how its
// client behaves. What go-control-plane can do is tested against go-control-plane.
type plane struct {
	addr    string
	options []grpc.ServerOption

	// Set before clients come.
	rand     *rand.Rand    // nil: answers whole and in order
	wrap     bool          // SotW resources go wrapped to nodes that announce it (RES-13)
	wrapAll  bool          // to other nodes too
	parts    int           // in how many parts incremental answers come; 0: rand says it
	plain    bool          // payloads without unknown fields, for which JSON has no word
	longPoll time.Duration // how long a REST poll is held
	world    string        // told by every payload that it makes
	suffix   string        // ends every version
	// allOrNothing: SotW says nothing of a type while a name is asked for that does not
	// exist, updates included, as java-control-plane does.
	allOrNothing bool

	identifier *corev3.ControlPlane        // of its incremental responses; nil: none (STR-10)
	beside     func(grpc.ServiceRegistrar) // registers other services; nil: there are none
	worlds     *worlds                     // not nil: each node has contents of its own, of which this has none

	mu       sync.Mutex
	held     bool // no answers until release
	types    map[string]map[string]entry
	life     int // how often it began anew, which its contents tell
	version  int
	versions map[string]int    // by type: SotW's version_info
	beyond   map[seenBy]string // SotW: the version of the last list that had more than the wildcard's
	changed  chan struct{}     // closed and replaced at every change
	streams  map[*planeStream]struct{}
	opened   int
	again    []string // what a stream asked for while it was subscribed to it
	violated []string // what the client must not do
	server   *grpc.Server
	serving  chan struct{}
	rest     *planeREST  // nil: not served
	files    *planeFiles // nil: not written
}

// entry is one resource of the plane.
type entry struct {
	version string
	inStar  bool // part of what "*" means
	payload []byte
	locator bool // the payload is a redirect (LOC-1)
}

// seenBy is a node with one of the types that it asks for.
type seenBy struct{ node, typeURL string }

func newPlane(t *testing.T, options ...grpc.ServerOption) *plane {
	t.Helper()
	p := emptyPlane(options...)
	p.listen(t)
	return p
}

// emptyPlane makes a plane that does not listen.
func emptyPlane(options ...grpc.ServerOption) *plane {
	return &plane{
		options: options, types: make(map[string]map[string]entry), versions: make(map[string]int),
		changed: make(chan struct{}), streams: make(map[*planeStream]struct{}), beyond: make(map[seenBy]string),
	}
}

func (p *plane) listen(t *testing.T) {
	t.Helper()
	lis := ports.Listen(t)
	p.addr = lis.Addr().String()
	p.start(lis)
	t.Cleanup(func() {
		p.mu.Lock()
		p.files = nil // the folder is gone already
		p.mu.Unlock()
		p.stop()
	})
}

func (p *plane) start(lis net.Listener) {
	s := grpc.NewServer(p.options...)
	for _, desc := range p.descriptors() {
		s.RegisterService(desc, nil)
	}
	if p.beside != nil {
		p.beside(s)
	}
	serving := make(chan struct{})
	p.mu.Lock()
	p.server, p.serving = s, serving
	p.mu.Unlock()
	go func() {
		defer close(serving)
		_ = s.Serve(lis) // ends with stop
	}()
}

// stop kills the plane as a crash does. Of files it leaves half.
func (p *plane) stop() {
	p.mu.Lock()
	s, serving, rest, files := p.server, p.serving, p.rest, p.files
	p.server = nil
	p.mu.Unlock()
	if s == nil {
		return
	}
	s.Stop()
	<-serving
	if rest != nil {
		rest.stop()
	}
	if files != nil {
		files.damage()
	}
}

// restart brings it back at the same address, with the contents it has now.
func (p *plane) restart(t testing.TB) {
	t.Helper()
	p.start(ports.Again(t, p.addr))
	if p.rest != nil {
		p.rest.start(ports.Again(t, p.rest.addr))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for typeURL := range p.types {
		p.writeFileLocked(typeURL)
	}
}

// beginAnew has a plane that is stopped forget everything and count from one again.
// Nothing that it says from now on has the contents that it had before.
func (p *plane) beginAnew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life++
	p.version = 0
	clear(p.versions)
	clear(p.types)
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

// set adds or changes a resource, and tells every stream that asked for it.
func (p *plane) set(typeURL, name string, inStar bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.putLocked(typeURL, name, inStar, "")
}

// put adds or changes a resource with this payload.
func (p *plane) put(typeURL, name string, payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	p.storeLocked(typeURL, name, entry{version: strconv.Itoa(p.version), payload: payload})
}

// redirect has a name lead to another one.
func (p *plane) redirect(typeURL, name, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	p.storeLocked(typeURL, name, entry{version: strconv.Itoa(p.version), payload: locatorTo(target), locator: true})
}

// setRoute adds or changes a RouteConfiguration that leads to a cluster.
func (p *plane) setRoute(name, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.putLocked(routeType, name, false, target)
}

func (p *plane) putLocked(typeURL, name string, inStar bool, target string) {
	p.version++
	p.storeLocked(typeURL, name, entry{version: strconv.Itoa(p.version) + p.suffix, inStar: inStar, payload: p.payloadLocked(typeURL, name, target)})
}

func (p *plane) storeLocked(typeURL, name string, e entry) {
	if p.types[typeURL] == nil {
		p.types[typeURL] = make(map[string]entry)
	}
	if old, ok := p.types[typeURL][name]; ok {
		e.inStar = old.inStar
	}
	p.types[typeURL][name] = e
	p.changedLocked(typeURL, name, e)
}

func (p *plane) payloadLocked(typeURL, name, target string) []byte {
	if serviceOf(typeURL).name == "" {
		return payloadOf(name, p.version)
	}
	b := contents(typeURL, name, fmt.Sprintf("%slife %d, v%d", stampOf(p.world, name), p.life, p.version), target)
	if p.plain {
		return b
	}
	return appendUnknown(b, p.version)
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
	p.changedLocked(typeURL, name, e)
}

// changedLocked tells everybody that a resource is new, other, or gone.
func (p *plane) changedLocked(typeURL, name string, e entry) {
	p.versions[typeURL]++
	close(p.changed)
	p.changed = make(chan struct{})
	for st := range p.streams {
		switch t := st.types[typeURL]; {
		case t == nil || !t.covers(name, e):
		case st.sotw:
			p.sotwChanged(st, typeURL, t, name)
		default:
			p.deltaChanged(st, typeURL, t, name)
		}
	}
	p.writeFileLocked(typeURL)
}

// covers reports whether subscriptions mean a name.
func (t *planeType) covers(name string, e entry) bool {
	if t.subs[name] || (e.inStar && t.subs["*"]) {
		return true
	}
	g := keyer.GlobOf(name)
	return g != "" && t.subs[g]
}

// hold keeps answers back until release.
func (p *plane) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// release sends what was held back, of every stream, in the order that shuffle
// gives to the incremental ones.
func (p *plane) release(shuffle func([]*discovery.DeltaDiscoveryResponse)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	for st := range p.streams {
		if shuffle != nil {
			shuffle(st.waiting)
		}
		for _, r := range st.waiting {
			st.send <- r
		}
		for _, r := range st.waitingSotw {
			st.send <- r
		}
		st.waiting, st.waitingSotw = nil, nil
	}
}

// releaseNext sends the first response of each incremental stream that was held back.
func (p *plane) releaseNext() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for st := range p.streams {
		if len(st.waiting) > 0 {
			st.send <- st.waiting[0]
			st.waiting = st.waiting[1:]
		}
	}
}

// progress is how many responses of incremental streams are held back, and acked how
// many were acknowledged.
func (p *plane) progress() (waiting, acked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for st := range p.streams {
		waiting += len(st.waiting)
		acked += st.acks
	}
	return waiting, acked
}

func resource(typeURL, name string, e entry) *discovery.Resource {
	if e.locator {
		typeURL = locatorType
	}
	return &discovery.Resource{Name: name, Version: e.version, Resource: &anypb.Any{TypeUrl: typeURL, Value: e.payload}}
}

// holds is what a direct client with these subscriptions would hold: version and
// payload by name.
func (p *plane) holds(typeURL string, subs map[string]bool) map[string]string {
	want := make(map[string]string)
	for n, e := range p.covered(typeURL, subs) {
		want[n] = e.version + " " + string(e.payload)
	}
	return want
}

// payloads is what a direct client of any variant would hold.
func (p *plane) payloads(typeURL string, subs map[string]bool) map[string]string {
	want := make(map[string]string)
	for n, e := range p.covered(typeURL, subs) {
		want[n] = string(e.payload)
	}
	return want
}

func (p *plane) covered(typeURL string, subs map[string]bool) map[string]entry {
	t := &planeType{subs: make(map[string]bool)}
	for n := range subs {
		k, err := keyer.Key(n)
		if err != nil {
			panic(err)
		}
		t.subs[k] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := maps.Clone(p.types[typeURL])
	maps.DeleteFunc(all, func(n string, e entry) bool {
		// A file cannot keep anything from the wildcard.
		e.inStar = e.inStar || p.files != nil && keyer.GlobOf(n) == ""
		return !t.covers(n, e)
	})
	return all
}
