package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// sotwClient is a state-of-the-world client, of ADS or of a stream for each type.
type sotwClient struct {
	*grpcClient

	wraps    bool // announces that it understands wrapped resources (RES-13)
	nack     func(*discovery.DiscoveryResponse) string
	accepted map[string]string // version_info by type; outlives streams; guarded by mu
	due      map[string]int    // by type: answers that may repeat what is held; guarded by mu
}

func newSotwClient(t testing.TB, v variant, addr, node string, options ...grpc.DialOption) *sotwClient {
	t.Helper()
	c := &sotwClient{
		grpcClient: newGRPCClient(t, v, addr, node, options...),
		accepted:   make(map[string]string), due: make(map[string]int),
	}
	c.take, c.announce = c.receive, c.first
	return c
}

func (c *sotwClient) connect(warm bool) error {
	c.mu.Lock()
	clear(c.due)
	if !warm {
		clear(c.accepted)
	}
	c.mu.Unlock()
	return c.grpcClient.connect(warm)
}

// request sends what is wanted of a type now, with the last version that was
// accepted and the last nonce that was acknowledged. It is an ACK if change makes
// the nonce that of a new response, a NACK if it adds an error too.
func (c *sotwClient) request(s *clientStream, typeURL string, change func(*discovery.DiscoveryRequest)) {
	s.sending.Lock()
	defer s.sending.Unlock()
	c.mu.Lock()
	r := &discovery.DiscoveryRequest{TypeUrl: typeURL}
	if change != nil {
		change(r)
	}
	if node := c.nodeLocked(s); node != nil {
		r.Node = node
		if c.wraps {
			node.ClientFeatures = append(node.ClientFeatures, resourceInSotw)
		}
	}
	r.ResourceNames = c.namesLocked(s, typeURL)
	r.VersionInfo, r.ResponseNonce = c.accepted[typeURL], s.nonce[typeURL]
	s.begun[typeURL] = true
	c.mu.Unlock()
	_ = s.SendMsg(r) // why the stream ended is what reading it says
}

// namesLocked lists what is wanted. A v2 client means "*" by no names for as long
// as it never named anything on the stream (SUB-2).
func (c *sotwClient) namesLocked(s *clientStream, typeURL string) []string {
	names := slices.Sorted(maps.Keys(c.subs[typeURL]))
	if c.v2 && fullState[typeURL] && !s.named[typeURL] && slices.Equal(names, []string{"*"}) {
		return nil
	}
	s.named[typeURL] = s.named[typeURL] || len(names) > 0
	return names
}

func (c *sotwClient) first(s *clientStream, typeURL string) {
	c.mu.Lock()
	c.due[typeURL] += len(c.subs[typeURL]) // WARM-2
	c.mu.Unlock()
	c.request(s, typeURL, nil)
}

func (c *sotwClient) subscribe(typeURL string, sub, unsub []string) {
	c.mu.Lock()
	c.wantLocked(typeURL, sub, unsub)
	c.due[typeURL] += 1 + len(sub) // what does not exist is answered by a list without it
	connected, nothing := c.streams != nil, len(c.subs[typeURL]) == 0
	s := c.streams[c.stream(typeURL)]
	begun := s != nil && s.begun[typeURL]
	c.mu.Unlock()
	switch {
	case !connected, !begun && nothing:
	case begun:
		c.request(s, typeURL, nil)
	default:
		_ = c.begin(typeURL, false) // connected says it
	}
}

func (c *sotwClient) releaseACKs(typeURL string) {
	c.mu.Lock()
	c.silent[typeURL] = false
	s := c.streams[c.stream(typeURL)]
	owed := s != nil && len(s.owed[typeURL]) > 0
	c.mu.Unlock()
	if owed {
		c.request(s, typeURL, func(*discovery.DiscoveryRequest) { c.acknowledgeLocked(s, typeURL) })
	}
}

// acknowledgeLocked moves the stream to the last response that is not
// acknowledged: the ones before it need no answer of their own any more.
func (c *sotwClient) acknowledgeLocked(s *clientStream, typeURL string) {
	if owed := s.owed[typeURL]; len(owed) > 0 {
		s.nonce[typeURL], s.owed[typeURL] = owed[len(owed)-1], nil
	}
}

// versionInfo is that of the last response that was accepted.
func (c *sotwClient) versionInfo(typeURL string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted[typeURL]
}

// receive takes a response as a careful client does.
func (c *sotwClient) receive(s *clientStream) error {
	r := new(discovery.DiscoveryResponse)
	if err := s.RecvMsg(r); err != nil {
		return err
	}
	typeURL := r.GetTypeUrl()
	c.mu.Lock()
	c.counts[typeURL]++
	c.nonceLocked(s, typeURL, r.GetNonce())
	reason := ""
	if c.nack != nil {
		reason = c.nack(r)
	}
	if reason == "" {
		if !c.takeSotwLocked(r, c.wraps) && r.GetVersionInfo() == c.accepted[typeURL] {
			if c.due[typeURL]--; c.due[typeURL] < 0 {
				c.faultLocked("STR-7: %s at version_info %q came again", typeURL, r.GetVersionInfo())
			}
		}
		c.accepted[typeURL] = r.GetVersionInfo()
		c.unbrokenLocked(typeURL)
	}
	s.owed[typeURL] = append(s.owed[typeURL], r.GetNonce())
	late := c.silent[typeURL]
	c.bump()
	c.mu.Unlock()
	if !late {
		c.request(s, typeURL, func(ack *discovery.DiscoveryRequest) {
			c.acknowledgeLocked(s, typeURL)
			if reason != "" {
				ack.ErrorDetail = &statuspb.Status{Code: 3, Message: reason}
			}
		})
	}
	return nil
}

// takeSotwLocked takes a response: what a full-state type's does not hold is gone,
// of other types absence says nothing (RES-2, RES-3). It reports whether anything
// changed.
func (h *holdings) takeSotwLocked(r *discovery.DiscoveryResponse, wraps bool) bool {
	typeURL, seen, changed := r.GetTypeUrl(), make(map[string]bool), false
	h.takeErrorsLocked(typeURL, r.GetResourceErrors())
	for _, a := range r.GetResources() {
		name, x, err := unwrap(typeURL, a, wraps)
		if err != nil {
			h.faultLocked("%s: %v", typeURL, err)
			continue
		}
		h.onceLocked(typeURL, seen, name)
		// What came too late is kept too: the next request may name it again, and the
		// server never saw one that did not.
		h.expectedLocked(typeURL, name)
		if h.holds[typeURL][name] != x {
			changed = true
		}
		h.putLocked(typeURL, name, x)
	}
	if fullState[typeURL] {
		for n := range h.holds[typeURL] {
			if !seen[n] {
				h.removeLocked(typeURL, n)
				changed = true
			}
		}
	}
	return changed
}

// unwrap reads one resource of a SotW response. The version is that of the wrapper
// or none.
func unwrap(typeURL string, a *anypb.Any, wraps bool) (string, held, error) {
	if a.GetTypeUrl() == wrapperType {
		x := new(discovery.Resource)
		if err := proto.Unmarshal(a.GetValue(), x); err != nil {
			return "", held{}, err
		}
		if !wraps {
			return "", held{}, fmt.Errorf("RES-13: %q is wrapped, which nobody announced", x.GetName())
		}
		if x.GetResource().GetTypeUrl() != typeURL {
			return "", held{}, fmt.Errorf("%q is of type %q", x.GetName(), x.GetResource().GetTypeUrl())
		}
		return x.GetName(), held{x.GetVersion(), string(x.GetResource().GetValue())}, nil
	}
	if a.GetTypeUrl() != typeURL {
		return "", held{}, fmt.Errorf("a resource of type %q", a.GetTypeUrl())
	}
	return nameOf(a.GetValue()), held{"", string(a.GetValue())}, nil
}
