package integration

import (
	"maps"
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
)

// client is an incremental client, of ADS or of a stream for each type.
type client struct {
	*grpcClient

	log  []*discovery.DeltaDiscoveryResponse // since it connected, unless it is to forget; guarded by mu
	nack func(*discovery.DeltaDiscoveryResponse) string
}

// newClient makes a client of incremental ADS.
func newClient(t testing.TB, addr, node string, options ...grpc.DialOption) *client {
	t.Helper()
	c := &client{grpcClient: newGRPCClient(t, deltaADS, addr, node, options...)}
	c.take, c.announce = c.receive, c.first
	return c
}

func (c *client) connect(warm bool) error {
	c.mu.Lock()
	c.log = nil
	c.mu.Unlock()
	return c.grpcClient.connect(warm)
}

// send sends the request that build gives under the lock, unless that is nil.
func (c *client) send(s *clientStream, build func() *discovery.DeltaDiscoveryRequest) {
	s.sending.Lock()
	defer s.sending.Unlock()
	c.mu.Lock()
	r := build()
	if r != nil {
		r.Node = c.nodeLocked(s)
	}
	c.mu.Unlock()
	if r != nil {
		_ = s.SendMsg(r) // why the stream ended is what reading it says
	}
}

// first asks for a type on a stream that knows nothing of it.
func (c *client) first(s *clientStream, typeURL string) {
	c.send(s, func() *discovery.DeltaDiscoveryRequest {
		s.begun[typeURL] = true
		r := &discovery.DeltaDiscoveryRequest{
			TypeUrl: typeURL, ResourceNamesSubscribe: slices.Sorted(maps.Keys(c.subs[typeURL])),
			InitialResourceVersions: make(map[string]string),
		}
		if c.v2 && slices.Equal(r.GetResourceNamesSubscribe(), []string{"*"}) {
			r.ResourceNamesSubscribe = nil // SUB-3: what v2 clients mean by no names
		}
		for n, x := range c.holds[typeURL] {
			if c.wantsLocked(typeURL, n) {
				r.InitialResourceVersions[n] = x.version
			}
		}
		return r
	})
}

func (c *client) subscribe(typeURL string, sub, unsub []string) {
	c.mu.Lock()
	c.wantLocked(typeURL, sub, unsub)
	for n := range c.holds[typeURL] {
		if !c.wantsLocked(typeURL, n) {
			delete(c.holds[typeURL], n)
		}
	}
	connected, nothing := c.streams != nil, len(c.subs[typeURL]) == 0
	s := c.streams[c.stream(typeURL)]
	begun := s != nil && s.begun[typeURL]
	c.mu.Unlock()
	switch {
	case !connected, !begun && nothing:
	case !begun:
		_ = c.begin(typeURL, false) // connected says it
	default:
		c.send(s, func() *discovery.DeltaDiscoveryRequest {
			return &discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: sub, ResourceNamesUnsubscribe: unsub}
		})
	}
}

func (c *client) releaseACKs(typeURL string) {
	c.mu.Lock()
	c.silent[typeURL] = false
	s := c.streams[c.stream(typeURL)]
	var owed []string
	if s != nil {
		owed, s.owed[typeURL] = s.owed[typeURL], nil
	}
	c.mu.Unlock()
	for _, nonce := range owed {
		c.send(s, func() *discovery.DeltaDiscoveryRequest {
			return &discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: nonce}
		})
	}
}

// receive takes a response as a careful client does.
func (c *client) receive(s *clientStream) error {
	r := new(discovery.DeltaDiscoveryResponse)
	if err := s.RecvMsg(r); err != nil {
		return err
	}
	c.mu.Lock()
	if !c.forgets {
		c.log = append(c.log, r)
	}
	c.counts[r.GetTypeUrl()]++
	c.nonceLocked(s, r.GetTypeUrl(), r.GetNonce())
	ack := &discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
	reason := ""
	if c.nack != nil {
		reason = c.nack(r)
	}
	if reason != "" {
		ack.ErrorDetail = &statuspb.Status{Code: 3, Message: reason}
	} else {
		c.takeLocked(r)
	}
	late := c.silent[r.GetTypeUrl()]
	if late {
		s.owed[r.GetTypeUrl()] = append(s.owed[r.GetTypeUrl()], r.GetNonce())
	}
	c.bump()
	c.mu.Unlock()
	if !late {
		c.send(s, func() *discovery.DeltaDiscoveryRequest { return ack })
	}
	return nil
}

func (c *client) takeLocked(r *discovery.DeltaDiscoveryResponse) {
	typeURL, seen := r.GetTypeUrl(), make(map[string]bool)
	for _, x := range r.GetResources() {
		c.onceLocked(typeURL, seen, x.GetName())
		if !c.expectedLocked(typeURL, x.GetName()) {
			continue
		}
		now := held{x.GetVersion(), string(x.GetResource().GetValue())}
		if c.holds[typeURL][x.GetName()] == now && !c.mayRepeatLocked(typeURL, x.GetName()) {
			c.faultLocked("STR-7: %q of %s at version %q came again", x.GetName(), typeURL, now.version)
		}
		c.putLocked(typeURL, x.GetName(), now)
	}
	for _, n := range r.GetRemovedResources() {
		c.onceLocked(typeURL, seen, n)
		c.removedLocked(typeURL, n)
	}
	c.takeErrorsLocked(typeURL, r.GetResourceErrors())
	c.unbrokenLocked(typeURL)
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

// responses copies what came since the client connected.
func (c *client) responses() []*discovery.DeltaDiscoveryResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// await waits until cond holds, looking again whenever the client changes.
func (c *client) await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !c.happens(cond) {
		t.Fatalf("%s: never happened to client %s; its stream ended with %v", what, c.node, c.ended())
	}
}
