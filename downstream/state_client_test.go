package downstream

import (
	"context"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

const (
	adsStream    = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	edsStream    = "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints"
	resourceType = "type.googleapis.com/envoy.service.discovery.v3.Resource"
)

type (
	stateRequestMsg  = discovery.DiscoveryRequest
	stateResponseMsg = discovery.DiscoveryResponse
)

// deltaADS is the variant of the tests that speak to a stream without gRPC.
func deltaADS() *variant { return &variant{deltaForm, &services[0]} }

// stateClient is a client's stream of the state-of-the-world form.
type stateClient struct {
	inbox[stateResponseMsg]

	stream grpc.ClientStream
	node   *corev3.Node
	names  map[string][]string // by type URL, what it subscribes to
	last   map[string]*stateResponseMsg
}

// state opens an aggregated stream that is read, and whose responses are
// acknowledged.
func (h *harness) state() *stateClient { return h.stateOn(adsStream, true) }

func (h *harness) stateOn(method string, acking bool) *stateClient {
	h.Helper()
	if h.conn == nil {
		h.conn = h.dial()
	}
	ctx, cancel := context.WithCancel(h.Context())
	stream, err := h.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil {
		h.Fatal(err)
	}
	c := &stateClient{
		inbox: inbox[stateResponseMsg]{h: h, cancel: cancel, acking: acking}, stream: stream, node: node("n"),
		names: map[string][]string{}, last: map[string]*stateResponseMsg{},
	}
	h.shutdown = append(h.shutdown, func() {
		cancel()
		c.reading.Wait()
	})
	c.reading.Go(c.read)
	return c
}

func (c *stateClient) read() {
	for {
		r := new(stateResponseMsg)
		err := c.stream.RecvMsg(r)
		c.mu.Lock()
		if err != nil {
			c.err = err
			c.mu.Unlock()
			return
		}
		c.got, c.all = append(c.got, r), append(c.all, r)
		c.last[r.TypeUrl] = r
		c.mu.Unlock()
		if c.acking {
			c.ack(r)
		}
	}
}

// send sends a request; the first one carries the node (STR-1).
func (c *stateClient) send(r *stateRequestMsg) {
	c.mu.Lock()
	r.Node, c.node = c.node, nil
	c.mu.Unlock()
	_ = c.stream.SendMsg(r) // what the stream ended with is told by Recv
}

// asks subscribes to names of a type and to nothing else, with the nonce of the
// last response for it.
func (c *stateClient) asks(typeURL string, names ...string) {
	c.asksWith(typeURL, "", names...)
}

// asksWith does so with a version where no response came on this stream.
func (c *stateClient) asksWith(typeURL, version string, names ...string) {
	c.mu.Lock()
	c.names[typeURL] = names
	last := c.last[typeURL]
	c.mu.Unlock()
	r := &stateRequestMsg{TypeUrl: typeURL, ResourceNames: names, VersionInfo: version}
	if last != nil {
		r.VersionInfo, r.ResponseNonce = last.VersionInfo, last.Nonce
	}
	c.send(r)
}

func (c *stateClient) ack(r *stateResponseMsg) {
	c.mu.Lock()
	names := c.names[r.TypeUrl]
	c.mu.Unlock()
	c.send(&stateRequestMsg{TypeUrl: r.TypeUrl, ResourceNames: names, VersionInfo: r.VersionInfo, ResponseNonce: r.Nonce})
}

func (c *stateClient) nack(r *stateResponseMsg, message string) {
	c.mu.Lock()
	names := c.names[r.TypeUrl]
	c.mu.Unlock()
	c.send(&stateRequestMsg{
		TypeUrl: r.TypeUrl, ResourceNames: names, ResponseNonce: r.Nonce,
		ErrorDetail: &status.Status{Code: int32(codes.InvalidArgument), Message: message},
	})
}

// wants holds what came since the last time to what was to come, in order.
func (c *stateClient) wants(want ...string) []*stateResponseMsg {
	c.h.Helper()
	return c.told(c.tell, want)
}

// tell writes a response in one line: name@version for what is in it, sorted, in
// brackets under the name it is wrapped with, and with ~ttl; !name=code for an error.
func (c *stateClient) tell(r *stateResponseMsg) string {
	c.h.Helper()
	var words []string
	for _, x := range r.Resources {
		if x.TypeUrl != resourceType {
			words = append(words, string(x.Value))
			continue
		}
		var w discovery.Resource
		if err := proto.Unmarshal(x.Value, &w); err != nil {
			c.h.Fatal(err)
		}
		word := "[" + w.Name + " " + w.Version + " " + string(w.Resource.GetValue())
		if w.Ttl != nil {
			word += "~" + w.Ttl.AsDuration().String()
		}
		words = append(words, word+"]")
	}
	slices.Sort(words)
	words = append(words, tellErrors(r.ResourceErrors)...)
	return strings.Join(append([]string{r.TypeUrl[strings.LastIndexByte(r.TypeUrl, '.')+1:]}, words...), " ")
}
