package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clusters  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	listeners = "type.googleapis.com/envoy.config.listener.v3.Listener"
	endpoints = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// memStore is a Store as small as it can be: what is wanted are lists that the
// test sets, what arrives is noted.
type memStore struct {
	changed chan struct{}

	mu       sync.Mutex
	wanted   map[wire.StreamID][]wire.Subscription // given out by Restart
	pending  map[wire.StreamID][]wire.Subscription // given out by TakeDemand
	parked   map[string][]string                   // by type, what Shed can let go of
	versions map[string]map[string]string
	held     map[string]bool // by type
	limits   []int
	restarts map[wire.StreamID]int
	lost     map[wire.StreamID]int
	applied  []*wire.Response
	states   []*wire.Response    // of applied, those that came as such
	shed     []int               // how many bytes Shed was to let go of
	withheld map[string]bool     // by type
	leftOut  map[string][]string // by type
	refuse   error               // what Apply returns
	deaf     bool                // nobody hears what Apply brings
	again    bool                // clients are offered again what they rejected
	same     bool                // Apply changes nothing
	alone    bool                // one client uses it
	anew     bool                // TakeDemand asks to begin anew, until Restart
	settled  []time.Time         // when Settle was called
	single   []string            // calls of OneStream
	recovers bool                // what Shed lets go of is wanted again at once
	quiet    time.Duration       // how long after a response something waits for Settle
	lonely   bool                // nobody waits for anything
	changing bool                // what a list has differs from what it had
}

func newStore(wanted ...wire.Subscription) *memStore {
	s := &memStore{
		changed: make(chan struct{}, 1), versions: map[string]map[string]string{},
		wanted: map[wire.StreamID][]wire.Subscription{{}: wanted}, pending: map[wire.StreamID][]wire.Subscription{},
		restarts: map[wire.StreamID]int{}, lost: map[wire.StreamID]int{}, parked: map[string][]string{},
		withheld: map[string]bool{},
	}
	return s
}

// newTypedStore is newStore for a control plane with one stream per type.
func newTypedStore(wanted ...wire.Subscription) *memStore {
	s := newStore()
	for _, sub := range wanted {
		s.wanted[wire.StreamID{TypeURL: sub.TypeURL}] = []wire.Subscription{sub}
	}
	return s
}

// streamOf is the aggregated stream that the tests give a number.
func streamOf(n int) wire.StreamID { return wire.StreamID{Second: n == 1} }

// want changes what is wanted on a stream: all of it from now on, and what to
// say on a stream that is open.
func (s *memStore) want(stream int, all []wire.Subscription, change ...wire.Subscription) {
	s.wantOn(streamOf(stream), all, change...)
}

func (s *memStore) wantOn(stream wire.StreamID, all []wire.Subscription, change ...wire.Subscription) {
	s.mu.Lock()
	s.wanted[stream] = all
	s.pending[stream] = append(s.pending[stream], change...)
	s.mu.Unlock()
	notify.Signal(s.changed)
}

func (s *memStore) DemandChanged() <-chan struct{} { return s.changed }

func (s *memStore) Streams() (ids []wire.StreamID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.wanted {
		if len(s.wanted[id])+len(s.pending[id]) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b wire.StreamID) int { return strings.Compare(a.String(), b.String()) })
	return ids
}

func (s *memStore) Awaited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lonely
}

// leave has the last client go, and come has one come.
func (s *memStore) leave() { s.get(func(s *memStore) { s.lonely = true }) }

func (s *memStore) come() {
	s.get(func(s *memStore) { s.lonely = false })
	notify.Signal(s.changed)
}

func (s *memStore) StreamWanted(stream wire.StreamID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wanted[stream])+len(s.pending[stream]) > 0
}

func (s *memStore) Restart(stream wire.StreamID, versionsLimit int) []wire.Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts[stream]++
	s.limits = append(s.limits, versionsLimit)
	s.pending[stream], s.anew = nil, false
	clear(s.withheld)
	out := slices.Clone(s.wanted[stream])
	for i := range out {
		out[i].Versions, out[i].Held = maps.Clone(s.versions[out[i].TypeURL]), s.held[out[i].TypeURL]
		if versionsLimit == 1 {
			out[i].Versions = nil
		}
	}
	return out
}

func (s *memStore) TakeDemand(stream wire.StreamID) ([]wire.Subscription, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.pending[stream]
	s.pending[stream] = nil
	return out, !s.anew
}

func (s *memStore) Shared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.alone
}

func (s *memStore) Unasked(stream wire.StreamID) (types []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.pending[stream] {
		if len(sub.Subscribe) > 0 {
			types = append(types, sub.TypeURL)
		}
	}
	return types
}

// Shed lets go of all that it can.
func (s *memStore) Shed(stream wire.StreamID, typeURL string, bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shed = append(s.shed, bytes)
	names := s.parked[typeURL]
	if len(names) == 0 {
		return false
	}
	delete(s.parked, typeURL)
	if !s.recovers {
		s.pending[stream] = append(s.pending[stream], unsub(typeURL, names...))
	}
	notify.Signal(s.changed)
	return true
}

func (s *memStore) LeaveOut(_ wire.StreamID, typeURL string, out, in []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leftOut == nil {
		s.leftOut = make(map[string][]string)
	}
	s.leftOut[typeURL] = slices.DeleteFunc(append(s.leftOut[typeURL], out...), func(name string) bool { return slices.Contains(in, name) })
}

func (s *memStore) Withhold(_ wire.StreamID, typeURL string, withheld bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withheld[typeURL] = withheld
}

// Lacks finds what earlier responses had.
func (s *memStore) Lacks(_ wire.StreamID, r *wire.Response) (names []string, repeats bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := maps.Clone(s.versions[r.TypeURL])
	for _, res := range r.Resources {
		_, had := held[res.Name]
		repeats = repeats || had && !s.changing
		delete(held, res.Name)
	}
	return slices.Sorted(maps.Keys(held)), repeats
}

// Apply takes a response of the state of the world for an incremental one, without removals.
func (s *memStore) Apply(_ wire.StreamID, r *wire.Response, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	if r.State {
		s.states = append(s.states, r)
	}
	if s.same {
		return nil
	}
	s.applied = append(s.applied, r)
	if s.versions[r.TypeURL] == nil {
		s.versions[r.TypeURL] = map[string]string{}
	}
	for _, res := range r.Resources {
		s.versions[r.TypeURL][res.Name] = res.Version
	}
	if r.Partial {
		for _, name := range r.Removed {
			delete(s.versions[r.TypeURL], name)
		}
	}
	if s.quiet > 0 {
		s.settled = nil
	}
	return nil
}

func (s *memStore) OneStream(stream wire.StreamID, one bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.single = append(s.single, fmt.Sprint(stream.String(), " ", one))
	second := stream
	second.Second = true
	if one {
		s.wanted[stream] = append(s.wanted[stream], s.wanted[second]...)
		s.pending[stream] = append(s.pending[stream], s.wanted[second]...)
		delete(s.wanted, second)
		delete(s.pending, second)
	}
	notify.Signal(s.changed)
}

func (s *memStore) Sequence() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.applied))
}

// Heard takes for granted that all content goes to somebody, unless the test says otherwise.
func (s *memStore) Heard() (heard, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.deaf && len(s.applied) > 0 && len(s.applied[len(s.applied)-1].Resources) > 0, s.again
}

func (s *memStore) Lost(stream wire.StreamID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[stream]++
}

func (s *memStore) Settle(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = append(s.settled, now)
	if s.quiet == 0 || len(s.settled) > 1 {
		return time.Time{}
	}
	return now.Add(s.quiet)
}

func (s *memStore) get(f func(s *memStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func sub(typeURL string, names ...string) wire.Subscription {
	return wire.Subscription{TypeURL: typeURL, Subscribe: names}
}

func unsub(typeURL string, names ...string) wire.Subscription {
	return wire.Subscription{TypeURL: typeURL, Unsubscribe: names}
}

// network connects sessions with servers by name, in memory.
type network struct {
	t  *testing.T
	mu sync.Mutex
	// A name that is not there refuses connections; nil swallows them.
	hosts map[string]*bufconn.Listener
	dials []dial
	// wrap, if set, is put around the connections.
	wrap func(net.Conn) net.Conn
}

type dial struct {
	host string
	at   time.Time
}

var errRefused = errors.New("connection refused")

func newNetwork(t *testing.T) *network {
	t.Helper()
	return &network{t: t, hosts: map[string]*bufconn.Listener{}}
}

func (n *network) dial(ctx context.Context, host string) (net.Conn, error) {
	n.mu.Lock()
	n.dials = append(n.dials, dial{host, time.Now()})
	lis, ok := n.hosts[host]
	n.mu.Unlock()
	switch {
	case !ok:
		return nil, errRefused
	case lis == nil:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	conn, err := lis.DialContext(ctx)
	if err == nil && n.wrap != nil {
		conn = n.wrap(conn)
	}
	return conn, err
}

func (n *network) dialled(host string) (at []time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.dials {
		if d.host == host {
			at = append(at, d.at)
		}
	}
	return at
}

func (n *network) blackHole(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = nil
}

// config is for an upstream with these hosts as endpoints.
func (n *network) config(hosts ...string) Config {
	// Silence counts in the tests that are about it: the servers of the others are mute.
	cfg := Config{Name: "cp", Keepalive: Keepalive{Response: -1}, Dial: Dial{Options: []grpc.DialOption{grpc.WithContextDialer(n.dial)}}}
	for _, h := range hosts {
		cfg.Endpoints = append(cfg.Endpoints, []string{"passthrough:///" + h})
	}
	return cfg
}

// server is a control plane that does what the test says.
type server struct {
	script  plane.Script
	net     *network
	host    string
	streams chan *serverStream
	// refuse, if set, ends every stream at once.
	refuse error
	deaf   bool // streams are not read from unless the test does
	opts   []grpc.ServerOption
	wg     sync.WaitGroup
}

type serverStream struct {
	plane.DeltaStream
	t       *testing.T
	opened  time.Time
	end     chan error
	reqs    chan *discoveryv3.DeltaDiscoveryRequest
	halfEnd chan struct{} // closed when the client has half-closed or gone
}

// allowPings has a server take the relay's pings. By grpc-go's default it would not (UPS-1).
func allowPings() grpc.ServerOption {
	return grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second})
}

func (n *network) serve(host string, change ...func(*server)) *server {
	n.t.Helper()
	lis := bufconn.Listen(1 << 20)
	s := &server{net: n, host: host, streams: make(chan *serverStream, 100)}
	for _, f := range change {
		f(s)
	}
	s.script.Delta = s.take
	s.script.Serve(lis, append(append([]grpc.ServerOption{allowPings()}, s.opts...), grpc.ForceServerCodecV2(wire.Codec()))...)
	n.mu.Lock()
	n.hosts[host] = lis
	n.mu.Unlock()
	n.t.Cleanup(s.stop)
	return s
}

// stop kills the server: its streams break, its host refuses connections.
func (s *server) stop() {
	s.net.mu.Lock()
	delete(s.net.hosts, s.host)
	s.net.mu.Unlock()
	s.script.Stop()
	s.wg.Wait()
}

// take hands a stream over to the test.
func (s *server) take(stream plane.DeltaStream) error {
	if s.refuse != nil {
		return s.refuse
	}
	ss := &serverStream{
		DeltaStream: stream,
		t:           s.net.t, opened: time.Now(), end: make(chan error, 1), halfEnd: make(chan struct{}),
		reqs: make(chan *discoveryv3.DeltaDiscoveryRequest, 1<<12),
	}
	if !s.deaf {
		s.wg.Go(func() {
			defer close(ss.halfEnd)
			for {
				req, err := stream.Recv()
				if err != nil {
					return
				}
				ss.reqs <- req
			}
		})
	}
	s.streams <- ss
	select {
	case err := <-ss.end:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// accept waits for the next stream.
func (s *server) accept() *serverStream {
	s.net.t.Helper()
	select {
	case ss := <-s.streams:
		return ss
	case <-time.After(time.Hour):
		s.net.t.Fatal("no stream was opened")
		return nil
	}
}

// next waits for the next request.
func (ss *serverStream) next() *discoveryv3.DeltaDiscoveryRequest {
	ss.t.Helper()
	select {
	case req := <-ss.reqs:
		return req
	case <-time.After(time.Hour):
		ss.t.Fatal("no request came")
		return nil
	}
}

// wants gives the names that a request subscribes to: "*" for an empty one, which as the
// first of its type means everything (SUB-14).
func wants(req *discoveryv3.DeltaDiscoveryRequest) []string {
	if len(req.GetResourceNamesSubscribe())+len(req.GetResourceNamesUnsubscribe()) == 0 && req.GetResponseNonce() == "" {
		return []string{"*"}
	}
	return req.GetResourceNamesSubscribe()
}

// answer waits for an ACK or a NACK.
func (ss *serverStream) answer() *discoveryv3.DeltaDiscoveryRequest {
	ss.t.Helper()
	for {
		if req := ss.next(); req.GetResponseNonce() != "" || req.GetErrorDetail() != nil {
			return req
		}
	}
}

// respond sends resources of a type, each "name" with version "v" + nonce.
func (ss *serverStream) respond(typeURL, nonce string, names ...string) {
	ss.t.Helper()
	resp := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce}
	for _, name := range names {
		resp.Resources = append(resp.Resources, &discoveryv3.Resource{
			Name: name, Version: "v" + nonce, Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte(name)},
		})
	}
	if err := ss.Send(resp); err != nil {
		ss.t.Fatalf("Send: %v", err)
	}
}

// recorder is an Observer that keeps what it is told.
type recorder struct {
	mu          sync.Mutex
	states      []State
	failures    []Reason
	opened      []string
	closed      []string
	sent        map[RequestKind]int
	received    int
	bytes       int
	delays      []time.Duration
	moves       []string
	unavailable []string
	unusable    int
	answers     []time.Duration
	silent      []string
	reused      int
	overdue     int
	checked     []string
}

func (r *recorder) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *recorder) StateChanged(s State) { r.locked(func() { r.states = append(r.states, s) }) }
func (r *recorder) ConnectFailed(_ string, reason Reason) {
	r.locked(func() { r.failures = append(r.failures, reason) })
}

func (r *recorder) StreamOpened(stream, endpoint string) {
	r.locked(func() { r.opened = append(r.opened, fmt.Sprint(stream, " ", endpoint)) })
}

func (r *recorder) StreamClosed(stream string, reason Reason) {
	r.locked(func() { r.closed = append(r.closed, fmt.Sprint(stream, " ", reason)) })
}

func (r *recorder) RequestSent(_ string, kind RequestKind) {
	r.locked(func() {
		if r.sent == nil {
			r.sent = map[RequestKind]int{}
		}
		r.sent[kind]++
	})
}

func (r *recorder) ResponseReceived(_ string, _, _, bytes int) {
	r.locked(func() { r.received++; r.bytes += bytes })
}
func (r *recorder) BackedOff(d time.Duration) { r.locked(func() { r.delays = append(r.delays, d) }) }
func (r *recorder) EndpointChanged(from, to string) {
	r.locked(func() { r.moves = append(r.moves, from+">"+to) })
}
func (r *recorder) Answered(d time.Duration) { r.locked(func() { r.answers = append(r.answers, d) }) }

func (r *recorder) EndpointSilent(endpoint string) {
	r.locked(func() { r.silent = append(r.silent, endpoint) })
}
func (r *recorder) AckWaitOver()    { r.locked(func() { r.overdue++ }) }
func (r *recorder) VersionsReused() { r.locked(func() { r.reused++ }) }
func (r *recorder) ListChecked(result ListCheck) {
	r.locked(func() { r.checked = append(r.checked, string(result)) })
}
func (r *recorder) FileUnusable() { r.locked(func() { r.unusable++ }) }

// running is a session that runs until the test ends, or until stop.
type running struct {
	*Session
	cancel context.CancelFunc
	done   chan error
}

// lookAt has a session that does not run look at what is wanted.
func lookAt(s *Session) {
	s.source.reconcile()
	s.report.turn(s.source.review())
}

func newUpstream(t *testing.T, cfg Config) *Upstream {
	t.Helper()
	u, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

// run runs a session with node id "relay".
func run(t *testing.T, u *Upstream, store Store, obs Observer) *running {
	t.Helper()
	s, err := u.NewSession(SessionConfig{Node: &corev3.Node{Id: "relay"}, Scope: "shared", Store: store, Observer: obs})
	if err != nil {
		t.Fatal(err)
	}
	return start(t, s)
}

func start(t *testing.T, s *Session) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Session: s, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- s.Run(ctx) }()
	t.Cleanup(func() { r.cancel(); r.wait() })
	return r
}

func (r *running) client() *grpcClient { return r.source.(*remote).client.(*grpcClient) }

func (r *running) wait() error {
	err := <-r.done
	r.done <- err
	return err
}

// stop ends the session and returns what Run returned.
func (r *running) stop() error {
	r.cancel()
	return r.wait()
}

func (r *recorder) TypeUnavailable(typeURL string) {
	r.locked(func() { r.unavailable = append(r.unavailable, typeURL) })
}

// counts are those of the two aggregated streams.
func counts(first, second int) map[wire.StreamID]int {
	m := map[wire.StreamID]int{}
	for stream, n := range []int{first, second} {
		if n > 0 {
			m[streamOf(stream)] = n
		}
	}
	return m
}
