package xdsclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
)

const (
	clusterType  = resource.ClusterType
	endpointType = resource.EndpointType
)

func expect[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// variant is a form, over ADS or with a stream for each type.
type variant struct {
	name    string
	form    Form
	perType bool
}

// overGRPC are the variants that have streams.
func overGRPC() []variant {
	return append(overADS(), variant{"VAR-2 incremental per type", Incremental, true}, variant{"VAR-1 SotW per type", SotW, true})
}

// overADS are the variants with one stream.
func overADS() []variant {
	return []variant{{"VAR-4 incremental ADS", Incremental, false}, {"VAR-3 SotW ADS", SotW, false}}
}

func variants() []variant { return append(overGRPC(), variant{"VAR-5 REST", REST, true}) }

// over carries a test out in variants.
func over(t *testing.T, variants []variant, test func(*script)) {
	t.Helper()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newScript(t, v)) })
		})
	}
}

// pick gives what is said of a variant's form.
func pick[T any](v variant, incremental, sotw T) T {
	if v.form == Incremental {
		return incremental
	}
	return sotw
}

// script is a server of a variant that does what a test tells it. Its responses carry
// the version "1" and the nonce "n1" in what a test calls response 1.
type script struct {
	*testing.T
	variant

	conn *grpc.ClientConn

	mu       sync.Mutex
	streams  map[string]grpc.ServerStream // the last one of each service: "ads", "cds", "eds"
	ends     map[string]chan error        // a value ends the stream
	polls    map[string]chan reply
	opened   int
	requests []string
	answers  []string
	nonces   map[string]string // the last ones that were answered
	wanted   map[string]map[string]bool
}

func newScript(t *testing.T, v variant) *script {
	t.Helper()
	s := &script{
		T: t, variant: v, streams: make(map[string]grpc.ServerStream), ends: make(map[string]chan error), polls: make(map[string]chan reply),
		nonces: make(map[string]string), wanted: make(map[string]map[string]bool),
	}
	s.conn = serve(t, grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec()), grpc.UnknownServiceHandler(s.handle)))
	return s
}

// serve gives a connection to a server; both end with t.
func serve(t *testing.T, server *grpc.Server) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(lis) })
	conn, err := Dial("passthrough:///server", nil, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return lis.DialContext(ctx)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		wg.Wait()
	})
	return conn
}

// client makes a client of the variant.
func (s *script) client(o Options) *Client {
	o.Form, o.PerType, o.Conn = s.form, s.perType, s.conn
	o.HTTP, o.URL = &http.Client{Transport: s}, "http://server"
	return New(o)
}

// running starts c and gives a function that ends it and returns Run's error.
func running(t *testing.T, c *Client) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = c.Run(ctx) })
	stop = func() error {
		cancel()
		wg.Wait()
		return err
	}
	t.Cleanup(func() { _ = stop() })
	synctest.Wait()
	return stop
}

// service gives the service that a method is of, by its gRPC name or path.
func service(method string) string {
	for _, url := range []string{clusterType, endpointType} {
		if of := xds.ServiceOf(url); method == of.StateMethod() || method == of.DeltaMethod() || method == of.Path {
			return keyer.ShortName(url)
		}
	}
	return "ads"
}

func (s *script) handle(_ any, g grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(g)
	of := service(method)
	s.mu.Lock()
	s.streams[of] = g
	s.opened++
	s.mu.Unlock()
	go func() { // RecvMsg returns after the handler has, so only the bubble can wait for it
		for {
			req := pick[proto.Message](s.variant, new(discoveryv3.DeltaDiscoveryRequest), new(discoveryv3.DiscoveryRequest))
			if g.RecvMsg(req) != nil {
				return
			}
			s.received(of, req)
		}
	}()
	select {
	case err := <-s.end(of):
		return err
	case <-g.Context().Done():
		return nil
	}
}

// RoundTrip answers a poll when the test does.
func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var req discoveryv3.DiscoveryRequest
	if err := protojson.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("%s with %v", r.Method, r.Header)
	}
	of := service(r.URL.Path)
	s.received(of, &req)
	select {
	case r := <-s.poll(of):
		return &http.Response{StatusCode: r.code, Status: http.StatusText(r.code), Body: io.NopCloser(bytes.NewBufferString(r.body))}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// reply is the answer to a poll.
type reply struct {
	code int
	body string
}

// end takes what the stream of a service ends with.
func (s *script) end(service string) chan error { return channelOf(s, s.ends, service) }

// poll takes the answers to a service's polls.
func (s *script) poll(service string) chan reply { return channelOf(s, s.polls, service) }

func channelOf[V any](s *script, all map[string]chan V, service string) chan V {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all[service] == nil {
		all[service] = make(chan V)
	}
	return all[service]
}

// of gives the service that a type is asked for at.
func (s *script) of(typeURL string) string {
	if s.perType {
		return keyer.ShortName(typeURL)
	}
	return "ads"
}

func (s *script) stream(service string) grpc.ServerStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[service]
}

func (s *script) streamCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// received notes a request.
func (s *script) received(service string, m proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type request interface {
		GetTypeUrl() string
		GetResponseNonce() string
		GetErrorDetail() *statuspb.Status
	}
	r := m.(request)
	url, nonce := r.GetTypeUrl(), r.GetResponseNonce()
	if s.wanted[url] == nil {
		s.wanted[url] = make(map[string]bool)
	}
	text := short(m)
	if s.perType {
		text = service + ": " + text
	}
	s.requests = append(s.requests, text)
	if nonce != "" && nonce != s.nonces[url] {
		s.nonces[url] = nonce
		answer := "ack " + nonce
		if r.GetErrorDetail() != nil {
			answer = "nack " + nonce + " " + r.GetErrorDetail().GetMessage()
		}
		s.answers = append(s.answers, answer)
	}
	switch r := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		for _, name := range r.GetResourceNamesSubscribe() {
			s.wanted[url][name] = true
		}
		for _, name := range r.GetResourceNamesUnsubscribe() {
			delete(s.wanted[url], name)
		}
	case *discoveryv3.DiscoveryRequest:
		clear(s.wanted[url])
		for _, name := range r.GetResourceNames() {
			s.wanted[url][name] = true
		}
	}
}

// send sends response number of a type and waits until it was dealt with.
func (s *script) send(typeURL, number string, elements ...string) {
	s.Helper()
	s.sendMessage(typeURL, s.response(typeURL, number, elements...))
	s.settle()
}

// sendMessage sends a message on the stream of a type.
func (s *script) sendMessage(typeURL string, m any) {
	s.Helper()
	switch body, isRaw := m.(wire.Raw); {
	case s.form != REST:
		if err := s.stream(s.of(typeURL)).SendMsg(m); err != nil {
			s.Error(err)
		}
	case isRaw:
		s.poll(s.of(typeURL)) <- reply{http.StatusOK, string(body)}
	default:
		s.poll(s.of(typeURL)) <- reply{http.StatusOK, protojson.Format(m.(proto.Message))}
	}
}

// settle waits for all that is on the way, over REST for the next poll too.
func (s *script) settle() {
	if s.form == REST {
		<-time.After(2 * DefaultPollInterval)
	}
	synctest.Wait()
}

// next waits, and takes the requests that came since the last call, in a short form.
func (s *script) next() []string {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// answered waits, and takes the answers that came since the last call.
func (s *script) answered() []string {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.answers
	s.answers = nil
	return all
}

// subscribed waits, and gives the names of a type that the server has been asked for.
func (s *script) subscribed(typeURL string) []string {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.wanted[typeURL])
}

func sorted[V any](names map[string]V) []string {
	var all []string
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// short shows a request: its type, then what is in it.
func short(m proto.Message) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	head := func(typeURL string, node *corev3.Node) {
		parts = []string{typeURL[strings.LastIndexByte(typeURL, '.')+1:]}
		if node != nil {
			add("node=%s", strings.Join(append([]string{node.GetId()}, node.GetClientFeatures()...), ","))
		}
	}
	var nonce string
	var reason *statuspb.Status
	switch r := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		head(r.GetTypeUrl(), r.GetNode())
		for _, name := range r.GetResourceNamesSubscribe() {
			add("+%s", name)
		}
		for _, name := range r.GetResourceNamesUnsubscribe() {
			add("-%s", name)
		}
		for _, name := range sorted(r.GetInitialResourceVersions()) {
			add("%s@%s", name, r.GetInitialResourceVersions()[name])
		}
		nonce, reason = r.GetResponseNonce(), r.GetErrorDetail()
	case *discoveryv3.DiscoveryRequest:
		head(r.GetTypeUrl(), r.GetNode())
		add("%v", r.GetResourceNames())
		if r.GetVersionInfo() != "" {
			add("v=%s", r.GetVersionInfo())
		}
		nonce, reason = r.GetResponseNonce(), r.GetErrorDetail()
	}
	switch {
	case reason != nil:
		add("nack=%s(%s)", nonce, reason.GetMessage())
	case nonce != "":
		add("ack=%s", nonce)
	}
	return strings.Join(parts, " ")
}

// response makes one of elements: "a@1" is resource a in version 1 with content 1,
// "a@1/2" with content 2, "a@" without a version, "a@1!" without payload. "a|b@1" has the
// alias b, "-a" is removed, which the state of the world says by silence, "!a" gets
// the error NOT_FOUND, "?a" UNAVAILABLE. In the state of the world resources come
// wrapped, but for those like "=a@1".
func (s *script) response(typeURL, number string, elements ...string) proto.Message {
	d := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: "n" + number, SystemVersionInfo: number}
	state := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, Nonce: "n" + number, VersionInfo: number}
	fail := func(name string, code codes.Code) {
		e := &discoveryv3.ResourceError{ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: status.New(code, "because").Proto()}
		d.ResourceErrors, state.ResourceErrors = append(d.ResourceErrors, e), append(state.ResourceErrors, e)
	}
	for _, e := range elements {
		switch e[0] {
		case '-':
			d.RemovedResources = append(d.RemovedResources, e[1:])
		case '!':
			fail(e[1:], codes.NotFound)
		case '?':
			fail(e[1:], codes.Unavailable)
		default:
			e, bare := strings.CutPrefix(e, "=")
			r := element(typeURL, e)
			d.Resources = append(d.Resources, r)
			if bare {
				state.Resources = append(state.Resources, r.GetResource())
			} else {
				state.Resources = append(state.Resources, encoded.Any(r))
			}
		}
	}
	return pick[proto.Message](s.variant, d, state)
}

func element(typeURL, e string) *discoveryv3.Resource {
	name, version, _ := strings.Cut(e, "@")
	version, empty := strings.CutSuffix(version, "!")
	version, content, differs := strings.Cut(version, "/")
	if !differs {
		content = version
	}
	name, alias, aliased := strings.Cut(name, "|")
	r := &discoveryv3.Resource{Name: name, Version: version}
	if aliased {
		r.Aliases = []string{alias}
	}
	if !empty {
		r.Resource = packed(typeURL, name, content)
	}
	return r
}

func packed(typeURL, name, content string) *anypb.Any {
	return encoded.Any(payload(typeURL, name, content))
}

// payload makes one whose content follows from its arguments.
func payload(typeURL, name, content string) proto.Message {
	if typeURL == endpointType {
		policy := &endpointv3.ClusterLoadAssignment_Policy{EndpointStaleAfter: &durationpb.Duration{Seconds: int64(content[0])}}
		return &endpointv3.ClusterLoadAssignment{ClusterName: name, Policy: policy}
	}
	return &clusterv3.Cluster{Name: name, AltStatName: content}
}

// recorder shows responses in a short form.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) record(resp *Response) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if resp.Err != nil {
		r.lines = append(r.lines, "error "+resp.Err.Error())
	}
	version := func(v string) string {
		if len(v) > 10 {
			return "digest"
		}
		return v
	}
	for _, ch := range resp.Changes {
		line := ch.Kind.String() + " " + ch.Name
		if ch.Old != "" || ch.Version != "" {
			line += " " + version(ch.Old) + ">" + version(ch.Version)
		}
		r.lines = append(r.lines, line)
	}
	return nil
}

// next waits, and takes the lines since the last call.
func (r *recorder) next() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}
