package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/keyer"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// client is an incremental ADS client that behaves as told: it holds what it is
// sent, may stop reading, may not acknowledge, and comes back with its versions.
type client struct {
	node     string
	features []string // announced by the node
	conn     *grpc.ClientConn

	sending sync.Mutex // one sender at a time

	mu      sync.Mutex
	stream  discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // why the stream ended
	subs    map[string]map[string]bool
	holds   map[string]map[string]held
	log     []*discovery.DeltaDiscoveryResponse // on this stream
	changed chan struct{}                       // closed and replaced at every change
	gate    chan struct{}                       // not nil: reading waits until it is closed
	silent  map[string]bool                     // types that are not acknowledged
	nack    func(*discovery.DeltaDiscoveryResponse) string
	faults  []string

	// What lost its subscription on this stream may still be on its way. If it comes
	// when a collection that was subscribed to since would cover it, no client can
	// tell whether it is part of that: see takeLocked.
	dropped   map[string]map[string]bool // by type: names; "*" for whatever a collection had
	ambiguous bool
}

type held struct{ version, payload string }

// newClient makes a client in plain text, unless options say otherwise.
func newClient(t testing.TB, addr, node string, options ...grpc.DialOption) *client {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{
		node: node, conn: conn, changed: make(chan struct{}), silent: make(map[string]bool),
		subs: make(map[string]map[string]bool), holds: make(map[string]map[string]held),
	}
	t.Cleanup(func() {
		c.disconnect()
		_ = conn.Close()
	})
	return c
}

// connect opens a stream and presents what is held and wanted. warm is false for
// a client that forgets everything.
func (c *client) connect(warm bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	g, err := discovery.NewAggregatedDiscoveryServiceClient(c.conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		cancel()
		return err
	}
	done := make(chan struct{})
	c.mu.Lock()
	c.stream, c.cancel, c.done, c.log, c.err = g, cancel, done, nil, nil
	c.dropped, c.ambiguous = make(map[string]map[string]bool), false
	var first []*discovery.DeltaDiscoveryRequest
	for _, typeURL := range slices.Sorted(maps.Keys(c.subs)) {
		r := &discovery.DeltaDiscoveryRequest{
			TypeUrl: typeURL, ResourceNamesSubscribe: slices.Sorted(maps.Keys(c.subs[typeURL])),
			InitialResourceVersions: make(map[string]string),
		}
		if len(r.ResourceNamesSubscribe) == 0 {
			continue // an empty first request would mean "*"
		}
		if !warm {
			c.holds[typeURL] = nil
		}
		for n, h := range c.holds[typeURL] {
			r.InitialResourceVersions[n] = h.version
		}
		first = append(first, r)
	}
	c.mu.Unlock()
	for _, r := range first {
		if err := c.send(g, r); err != nil {
			cancel()
			return err
		}
	}
	go func() {
		defer close(done)
		c.read(ctx, g)
	}()
	return nil
}

func (c *client) send(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, r *discovery.DeltaDiscoveryRequest) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	r.Node = &corev3.Node{Id: c.node, ClientFeatures: c.features}
	return g.Send(r)
}

// disconnect ends the stream and waits until nothing reads it any more.
func (c *client) disconnect() {
	c.mu.Lock()
	cancel, done := c.cancel, c.done
	c.cancel, c.stream = nil, nil
	gate := c.gate
	c.gate = nil
	c.mu.Unlock()
	if gate != nil {
		close(gate)
	}
	if cancel != nil {
		cancel()
		<-done
	}
}

// connected reports whether the stream is up. Its end counts as a change.
func (c *client) connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream != nil && c.err == nil
}

// ended is why the stream ended.
func (c *client) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// pause stops reading; resume goes on.
func (c *client) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate == nil {
		c.gate = make(chan struct{})
	}
}

func (c *client) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate != nil {
		close(c.gate)
		c.gate = nil
	}
}

// subscribe changes what is wanted and tells the server.
func (c *client) subscribe(typeURL string, sub, unsub []string) {
	c.mu.Lock()
	if c.subs[typeURL] == nil {
		c.subs[typeURL] = make(map[string]bool)
	}
	first := len(c.subs[typeURL]) == 0
	for _, n := range unsub {
		delete(c.subs[typeURL], n)
	}
	for _, n := range unsub {
		c.dropLocked(typeURL, n)
	}
	for _, n := range sub {
		c.subs[typeURL][n] = true
	}
	for n := range c.holds[typeURL] {
		if !c.wantsLocked(typeURL, n) {
			delete(c.holds[typeURL], n)
		}
	}
	g := c.stream
	c.bump()
	c.mu.Unlock()
	if g == nil || (first && len(sub) == 0) {
		return
	}
	_ = c.send(g, &discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: sub, ResourceNamesUnsubscribe: unsub})
}

// dropLocked notes what the client does not want any more. A name that something
// else still covers is answered (SUB-8) and leaves no doubt.
func (c *client) dropLocked(typeURL, name string) {
	if c.dropped == nil || c.wantsLocked(typeURL, name) {
		return
	}
	if c.dropped[typeURL] == nil {
		c.dropped[typeURL] = make(map[string]bool)
	}
	if strings.HasSuffix(name, "*") || strings.Contains(name, "*?") {
		name = "*"
	}
	c.dropped[typeURL][name] = true
}

func (c *client) wantsLocked(typeURL, name string) bool {
	subs := c.subs[typeURL]
	if subs[name] {
		return true
	}
	if g := keyer.GlobOf(name); g != "" {
		return subs[g]
	}
	return subs["*"]
}

func (c *client) bump() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *client) read(ctx context.Context, g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient) {
	for {
		c.mu.Lock()
		gate := c.gate
		c.mu.Unlock()
		if gate != nil {
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
		r, err := g.Recv()
		if err != nil {
			c.mu.Lock()
			c.err = err
			c.bump()
			c.mu.Unlock()
			return
		}
		ack := c.apply(r)
		if ack != nil {
			_ = c.send(g, ack)
		}
	}
}

// apply takes a response as a careful client does, and notes what a server must
// not do.
func (c *client) apply(r *discovery.DeltaDiscoveryResponse) *discovery.DeltaDiscoveryRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, r)
	ack := &discovery.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}
	reason := ""
	if c.nack != nil {
		reason = c.nack(r)
	}
	if reason != "" {
		ack.ErrorDetail = &statuspb.Status{Code: 3, Message: reason}
	} else {
		c.takeLocked(r)
	}
	c.bump()
	if c.silent[r.TypeUrl] {
		return nil
	}
	return ack
}

func (c *client) takeLocked(r *discovery.DeltaDiscoveryResponse) {
	if c.holds[r.TypeUrl] == nil {
		c.holds[r.TypeUrl] = make(map[string]held)
	}
	seen := make(map[string]bool)
	for _, x := range r.Resources {
		if seen[x.Name] {
			c.faults = append(c.faults, fmt.Sprintf("RES-4: %q twice in one response", x.Name))
		}
		seen[x.Name] = true
		if !c.wantsLocked(r.TypeUrl, x.Name) {
			continue // on its way when it was unsubscribed
		}
		if d := c.dropped[r.TypeUrl]; (d[x.Name] || d["*"]) && !c.subs[r.TypeUrl][x.Name] {
			// Sent for the subscription that ended, or for the collection? A client that
			// has to know begins anew.
			c.ambiguous = true
		}
		c.holds[r.TypeUrl][x.Name] = held{x.Version, string(x.Resource.GetValue())}
	}
	for _, n := range r.RemovedResources {
		if seen[n] {
			c.faults = append(c.faults, fmt.Sprintf("RES-4: %q twice in one response", n))
		}
		seen[n] = true
		delete(c.holds[r.TypeUrl], n)
	}
}

// state copies what is held of a type: version and payload by name.
func (c *client) state(typeURL string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := make(map[string]string, len(c.holds[typeURL]))
	for n, h := range c.holds[typeURL] {
		m[n] = h.version + " " + h.payload
	}
	return m
}

// responses copies what came on this stream.
func (c *client) responses() []*discovery.DeltaDiscoveryResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// patience bounds how long a test waits for what must happen; nothing is asserted
// about how long it takes.
const patience = 20 * time.Second

// await waits until cond holds, looking again whenever the client changes.
func (c *client) await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !c.happens(cond) {
		t.Fatalf("%s: never happened to client %s; its stream ended with %v", what, c.node, c.ended())
	}
}

func (c *client) happens(cond func() bool) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if cond() {
			return true
		}
		select {
		case <-changed:
		case <-deadline.C:
			return false
		}
	}
}

// awaitHolding waits until the client holds exactly these names of a type.
func (c *client) awaitHolding(t testing.TB, typeURL string, names ...string) {
	t.Helper()
	slices.Sort(names)
	c.await(t, fmt.Sprintf("holding %v", names), func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(c.state(typeURL))), names)
	})
}
