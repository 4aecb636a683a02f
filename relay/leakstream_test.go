package relay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// leakForm is how a client asks.
type leakForm struct {
	kind    leakKind
	alone   bool // each type has a stream of its own, by its own discovery service
	wrapped bool // the client knows wrapped resources
}

type leakKind int

const (
	changes leakKind = iota
	states
	polling
)

// leakForms are all forms of clients.
func leakForms() []leakForm {
	return []leakForm{
		{kind: changes}, {kind: changes, alone: true},
		{kind: states}, {kind: states, alone: true}, {kind: states, wrapped: true}, {kind: states, alone: true, wrapped: true},
		{kind: polling}, {kind: polling, wrapped: true},
	}
}

func (f leakForm) String() string {
	text := []string{"changes", "states", "polls"}[f.kind]
	if f.alone {
		text += ", type by type"
	}
	if f.wrapped {
		text += ", wrapped"
	}
	return text
}

// features are the features of a client's node.
func (f leakForm) features() []string {
	if f.wrapped {
		return []string{"xds.config.resource-in-sotw"}
	}
	return nil
}

// method is that of the stream for a type.
func (f leakForm) method(typeURL string) string {
	const all = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
	switch service := xds.ServiceOf(typeURL); {
	case f.alone && f.kind == changes:
		return service.DeltaMethod()
	case f.alone:
		return service.StateMethod()
	case f.kind == changes:
		return all + "DeltaAggregatedResources"
	}
	return all + "StreamAggregatedResources"
}

// leakStreams are the streams, or the connection for polls, of a client from when it comes until it leaves.
type leakStreams struct {
	client  *leakClient
	guesses map[string]string // versions of clusters that it says to hold
	conn    *grpc.ClientConn
	context context.Context
	end     context.CancelFunc
	reading sync.WaitGroup
	open    map[string]asks // by method
	polls   *http.Transport
}

// asks is a stream by which a client asks.
type asks interface {
	// ask says what is new in what the client wants of a type.
	ask(typeURL string, subscribe, unsubscribe []string)
}

// begin has a client come. Its streams open as it asks.
func (c *leakClient) begin(guesses map[string]string) *leakStreams {
	s := &leakStreams{client: c, guesses: guesses, open: make(map[string]asks)}
	dial := func(ctx context.Context) (net.Conn, error) { return c.at.DialContext(ctx) }
	if c.form.kind == polling {
		s.polls = &http.Transport{
			DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			TLSClientConfig: c.who.tls, DisableKeepAlives: true,
		}
		return s
	}
	var err error
	s.conn, err = grpc.NewClient("passthrough:///relay", grpc.WithTransportCredentials(c.who.credentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	if err != nil {
		c.Fatal(err)
	}
	s.context, s.end = context.WithCancel(context.Background())
	if c.who.token != "" {
		s.context = metadata.AppendToOutgoingContext(s.context, "authorization", "Bearer "+c.who.token)
	}
	return s
}

// leave ends all that the client has open.
func (s *leakStreams) leave() {
	if s.polls != nil {
		return
	}
	s.end()
	s.reading.Wait()
	_ = s.conn.Close()
}

// ask says what is new on the stream of the type.
func (s *leakStreams) ask(typeURL string, subscribe, unsubscribe []string) {
	method := s.client.form.method(typeURL)
	if s.open[method] == nil {
		s.open[method] = s.start(method)
	}
	s.open[method].ask(typeURL, subscribe, unsubscribe)
}

// start opens a stream, and has it read until it ends.
func (s *leakStreams) start(method string) asks {
	stream, err := s.conn.NewStream(s.context, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		s.client.finish()
		return ended{}
	}
	if s.client.form.kind == changes {
		d := &deltaStream{
			GenericClientStream: grpc.GenericClientStream[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]{ClientStream: stream},
			client:              s.client, guesses: s.guesses, node: s.client.node, begun: make(map[string]bool),
		}
		s.reading.Go(func() { receive(s.client, d.Recv, d.take) })
		return d
	}
	d := &stateStream{
		GenericClientStream: grpc.GenericClientStream[discovery.DiscoveryRequest, discovery.DiscoveryResponse]{ClientStream: stream},
		client:              s.client, node: s.client.node, nonces: make(map[string]string),
	}
	s.reading.Go(func() { receive(s.client, d.Recv, d.take) })
	return d
}

// receive takes what comes on a stream until it ends.
func receive[R any](c *leakClient, next func() (R, error), take func(R)) {
	defer c.finish()
	for {
		r, err := next()
		if err != nil {
			return
		}
		take(r)
	}
}

// ended is a stream that was not opened.
type ended struct{}

func (ended) ask(string, []string, []string) {}

// deltaStream is a stream of the incremental form.
type deltaStream struct {
	grpc.GenericClientStream[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]

	client  *leakClient
	guesses map[string]string

	sending sync.Mutex
	node    *corev3.Node // nil: it was sent
	begun   map[string]bool
}

func (d *deltaStream) ask(typeURL string, subscribe, unsubscribe []string) {
	d.say(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: subscribe, ResourceNamesUnsubscribe: unsubscribe}, true)
}

func (d *deltaStream) take(r *discovery.DeltaDiscoveryResponse) {
	d.client.delta(r)
	d.say(&discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}, false)
}

// say sends a request. The first one that asks for a type presents what the client holds.
func (d *deltaStream) say(q *discovery.DeltaDiscoveryRequest, asks bool) {
	d.sending.Lock()
	defer d.sending.Unlock()
	q.Node, d.node = d.node, nil
	if asks && !d.begun[q.GetTypeUrl()] {
		d.begun[q.GetTypeUrl()] = true
		q.InitialResourceVersions = d.client.presents(q.GetTypeUrl(), d.guesses)
	}
	_ = d.Send(q) // Recv says why it fails
}

// presents gives the versions that the client says to hold of a type.
func (c *leakClient) presents(typeURL string, guesses map[string]string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	versions := maps.Clone(c.held[typeURL])
	if typeURL != clusterType || len(guesses) == 0 {
		return versions
	}
	if versions == nil {
		versions = make(map[string]string)
	}
	for name, version := range guesses {
		versions[name] = version
		put(c.shown, clusterType, name, true)
	}
	return versions
}

// stateStream is a stream of the state of the world.
type stateStream struct {
	grpc.GenericClientStream[discovery.DiscoveryRequest, discovery.DiscoveryResponse]

	client *leakClient

	sending sync.Mutex
	node    *corev3.Node // nil: it was sent
	nonces  map[string]string
}

func (d *stateStream) ask(typeURL string, _, _ []string) { d.say(typeURL, "") }

func (d *stateStream) take(r *discovery.DiscoveryResponse) {
	d.client.state(r)
	d.say(r.GetTypeUrl(), r.GetNonce())
}

// say asks for all that the client wants of a type. nonce is that of the response that it acknowledges; "":
// none.
func (d *stateStream) say(typeURL, nonce string) {
	d.sending.Lock()
	defer d.sending.Unlock()
	if nonce != "" {
		d.nonces[typeURL] = nonce
	}
	q := d.client.wanted(typeURL)
	q.TypeUrl, q.ResponseNonce = typeURL, d.nonces[typeURL]
	q.Node, d.node = d.node, nil
	_ = d.Send(q) // Recv says why it fails
}

// wanted is a request for all that the client wants of a type.
func (c *leakClient) wanted(typeURL string) *discovery.DiscoveryRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &discovery.DiscoveryRequest{VersionInfo: c.versions[typeURL], ResourceNames: slices.Sorted(maps.Keys(c.subs[typeURL]))}
}

// poll polls for everything that the client wants, each time over a connection of its own: deadlines of
// connections that are used again are not exact in memory.
func (s *leakStreams) poll() {
	for _, typeURL := range []string{clusterType, edsType, secretType} {
		q := s.client.wanted(typeURL)
		q.Node = s.client.node
		if len(q.GetResourceNames()) == 0 {
			continue
		}
		s.client.polls(typeURL, q.GetVersionInfo() != "")
		status, text := s.post(typeURL, q)
		if status != http.StatusOK || len(text) == 0 { // an empty one is of a poll that counts as broken off
			s.client.notAnswered(typeURL, text)
			continue
		}
		r := new(discovery.DiscoveryResponse)
		if err := protojson.Unmarshal(text, r); err != nil {
			s.client.Fatalf("%v: %q", err, text)
		}
		s.client.state(r)
	}
}

// post sends a poll.
func (s *leakStreams) post(typeURL string, q *discovery.DiscoveryRequest) (status int, text []byte) {
	c := s.client
	body, err := protojson.Marshal(q)
	if err != nil {
		c.Fatal(err)
	}
	scheme := "http"
	if c.who.tls != nil {
		scheme = "https"
	}
	url := fmt.Sprintf("%s://relay%s", scheme, xds.ServiceOf(typeURL).Path)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if c.who.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.who.token)
	}
	answer, err := s.polls.RoundTrip(request)
	if err != nil {
		c.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		c.Fatal(err)
	}
	return answer.StatusCode, text
}
