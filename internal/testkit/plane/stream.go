package plane

import (
	"strconv"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// stream is one gRPC stream.
type stream struct {
	// immutable
	number int
	delta  bool
	only   string // the type of a type's own service; "" for an aggregated one

	out    outbox
	ending sync.Once
	ended  chan struct{} // closed to end the stream

	// guarded by the plane's mutex
	node     *corev3.Node
	admitted bool // it is the one stream of its node
	types    map[string]*subscription
	nonces   int
}

func (st *stream) end() { st.ending.Do(func() { close(st.ended) }) }

func (st *stream) nextNonce() string {
	st.nonces++
	return strconv.Itoa(st.nonces)
}

// of gives the stream's subscription to a type, and whether it was there before.
func (st *stream) of(typeURL string) (s *subscription, first bool) {
	s = st.types[typeURL]
	if s == nil {
		s = newSubscription(typeURL)
		st.types[typeURL] = s
		return s, true
	}
	return s, false
}

// outbox is a queue without bound: the goroutine that fills it holds the plane's mutex and must
// not wait for a client.
type outbox struct {
	mu       sync.Mutex
	messages []proto.Message // nil: the stream ends
	ready    chan struct{}   // has one token if messages may be there
}

func (o *outbox) put(m proto.Message) {
	o.mu.Lock()
	o.messages = append(o.messages, m)
	o.mu.Unlock()
	notify.Signal(o.ready)
}

func (o *outbox) take() []proto.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.messages
	o.messages = nil
	return all
}

func (p *Plane) serveStream(g grpc.ServerStream, only string, delta bool) error {
	if p.divide != nil {
		begun, node, err := begin(g, delta)
		if err != nil {
			return err
		}
		return p.divide(node).serveStream(begun, only, delta)
	}
	st := &stream{
		delta: delta, only: only, ended: make(chan struct{}), types: make(map[string]*subscription),
		out: outbox{ready: make(chan struct{}, 1)},
	}
	p.mu.Lock()
	if p.refusesLocked() {
		p.mu.Unlock()
		return errCut
	}
	p.opened++
	st.number = p.opened
	p.streams[st] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.streams, st)
		p.mu.Unlock()
	}()
	received := make(chan error, 1)
	go func() { received <- p.receiveAll(g, st) }() // ends with the stream
	for {
		select {
		case <-st.out.ready:
			for _, m := range st.out.take() {
				if m == nil {
					return errCut
				}
				if err := g.SendMsg(m); err != nil {
					return err
				}
			}
		case err := <-received:
			return err
		case <-st.ended:
			return errEnded
		}
	}
}

// begunStream is a stream whose first message was looked at.
type begunStream struct {
	grpc.ServerStream

	first proto.Message // nil once it was given
}

// begin looks at the node that a stream presents.
func begin(g grpc.ServerStream, delta bool) (*begunStream, *corev3.Node, error) {
	var first interface {
		proto.Message
		GetNode() *corev3.Node
	} = new(discovery.DiscoveryRequest)
	if delta {
		first = new(discovery.DeltaDiscoveryRequest)
	}
	err := g.RecvMsg(first)
	return &begunStream{ServerStream: g, first: first}, first.GetNode(), err
}

// RecvMsg implements [grpc.ServerStream].
func (s *begunStream) RecvMsg(m any) error {
	if s.first == nil {
		return s.ServerStream.RecvMsg(m)
	}
	proto.Merge(m.(proto.Message), s.first)
	s.first = nil
	return nil
}

// secondLocked reports whether the stream is not to be, since its node has another one.
func (p *Plane) secondLocked(st *stream) bool {
	if !p.behaviour.OneStream || st.admitted {
		return false
	}
	for other := range p.streams {
		if other.admitted && other.node.GetId() == st.node.GetId() {
			return true
		}
	}
	st.admitted = true
	return false
}

// receiveAll takes requests until the stream ends.
func (p *Plane) receiveAll(g grpc.ServerStream, st *stream) error {
	for {
		var err error
		if st.delta {
			r := new(discovery.DeltaDiscoveryRequest)
			if err = g.RecvMsg(r); err == nil {
				err = p.takeDelta(st, r)
			}
		} else {
			r := new(discovery.DiscoveryRequest)
			if err = g.RecvMsg(r); err == nil {
				err = p.takeState(st, r)
			}
		}
		if err != nil {
			return err
		}
	}
}

// typed fills in the type of a type's own service, and refuses others (VAR-10) but list collections of it.
func (st *stream) typed(typeURL *string) error {
	switch {
	case st.only == "" && *typeURL == "":
		return status.Error(codes.InvalidArgument, "a request without type URL")
	case st.only == "" || *typeURL == st.only || *typeURL == st.only+"Collection":
	case *typeURL == "":
		*typeURL = st.only
	default:
		return status.Errorf(codes.InvalidArgument, "type URL %q, expected %q", *typeURL, st.only)
	}
	return nil
}
