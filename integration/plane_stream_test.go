package integration

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// planeStream is one stream towards the plane, of any variant. plane.mu guards it.
type planeStream struct {
	sotw  bool
	only  string // the type of a type's own service; "" for ADS
	node  string
	shown *corev3.Node // the node as it was presented
	wraps bool         // SotW resources go wrapped
	begun bool
	send  chan proto.Message
	types map[string]*planeType
	kill  chan struct{}

	requests     []*discovery.DeltaDiscoveryRequest
	sotwRequests []*discovery.DiscoveryRequest
	sent         int
	waiting      []*discovery.DeltaDiscoveryResponse // held back
	waitingSotw  []*discovery.DiscoveryResponse
	nonce        int
	acks         int
	nacks        int
}

// planeType is what a stream asked for of one type, and was answered.
type planeType struct {
	subs     map[string]bool
	known    map[string]string // incremental: version told
	named    bool              // SotW: a request named something (SUB-2)
	answers  []planeAnswer     // in the order in which they were sent
	accepted string            // SotW: version_info of the last one that was ACKed
	presents string            // SotW: the nonce of the last request
	muted    bool              // SotW: nothing was said, since a name does not exist
}

// planeAnswer is a response as far as its ACK must match it.
type planeAnswer struct {
	nonce, version string
	answered       bool
}

// descriptors are the services that the plane serves: ADS under its names of v3
// and v2, and each type's own.
func (p *plane) descriptors() []*grpc.ServiceDesc {
	all := []*grpc.ServiceDesc{
		p.descriptor(aggregated, aggregation, "", true),
		p.descriptor(aggregatedV2, aggregation, "", true),
	}
	for _, s := range services {
		all = append(all, p.descriptor(s.name, s.noun, s.typeURL, !s.deltaOnly))
	}
	return all
}

func (p *plane) descriptor(name, noun, typeURL string, sotw bool) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: name}
	add := func(method string, sotw bool) {
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: method, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, g grpc.ServerStream) error { return p.serve(g, typeURL, sotw) },
		})
	}
	add("Delta"+noun, false)
	if sotw {
		add("Stream"+noun, true)
	}
	return d
}

// serve serves a stream.
func (p *plane) serve(g grpc.ServerStream, only string, sotw bool) error {
	if p.worlds != nil {
		return p.worlds.serve(g, only, sotw)
	}
	st := &planeStream{
		sotw: sotw, only: only, types: make(map[string]*planeType),
		send: make(chan proto.Message, 1<<14), kill: make(chan struct{}),
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
	ended := make(chan error, 1)
	go func() {
		for {
			if err := p.receive(g, st); err != nil {
				ended <- err
				return
			}
		}
	}()
	for {
		select {
		case r := <-st.send:
			if err := g.SendMsg(r); err != nil {
				return err
			}
		case err := <-ended:
			return err
		case <-st.kill:
			return status.Error(codes.Unavailable, "killed")
		}
	}
}

// receive takes one request.
func (p *plane) receive(g grpc.ServerStream, st *planeStream) error {
	if st.sotw {
		r := new(discovery.DiscoveryRequest)
		if err := g.RecvMsg(r); err != nil {
			return err
		}
		if err := st.typed(&r.TypeUrl); err != nil {
			return err
		}
		p.sotwRequest(st, r)
		return nil
	}
	r := new(discovery.DeltaDiscoveryRequest)
	if err := g.RecvMsg(r); err != nil {
		return err
	}
	if err := st.typed(&r.TypeUrl); err != nil {
		return err
	}
	p.deltaRequest(st, r)
	return nil
}

// typed holds a request to the service's type (VAR-10).
func (st *planeStream) typed(typeURL *string) error {
	switch {
	case st.only == "" && *typeURL == "":
		return status.Error(codes.InvalidArgument, "no type URL")
	case st.only == "" || *typeURL == st.only:
	case *typeURL == "":
		*typeURL = st.only
	default:
		return status.Errorf(codes.InvalidArgument, "type URL %q, expected %q", *typeURL, st.only)
	}
	return nil
}

// beginLocked takes the node of the stream's first request.
func (p *plane) beginLocked(st *planeStream, node *corev3.Node) {
	if st.begun {
		return
	}
	st.begun = true
	if node == nil {
		p.reportLocked("STR-2: the first request of a stream has no node")
	}
	st.node, st.shown = node.GetId(), node
	st.wraps = p.wrap && (p.wrapAll || slices.Contains(node.GetClientFeatures(), resourceInSotw))
}

// resourceInSotw is announced by clients that understand wrapped resources.
const resourceInSotw = "xds.config.supports-resource-in-sotw"

// of gives the stream's state of a type.
func (st *planeStream) of(typeURL string) *planeType {
	t := st.types[typeURL]
	if t == nil {
		t = &planeType{subs: make(map[string]bool), known: make(map[string]string)}
		st.types[typeURL] = t
	}
	return t
}
