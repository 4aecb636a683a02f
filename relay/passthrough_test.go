package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// rawPlane is a control plane that records what comes, byte for byte, and answers by a script.
type rawPlane struct {
	address string
	answers [][]wire.Raw // to each request, in order
	end     error        // the status behind the last answer

	mu      sync.Mutex // guards what follows
	streams []rawStream
}

// rawStream is what a control plane got on one stream.
type rawStream struct {
	method   string
	requests []wire.Raw
}

func newRawPlane(t *testing.T, answers [][]wire.Raw, end error) *rawPlane {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &rawPlane{address: lis.Addr().String(), answers: answers, end: end}
	s := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec()), grpc.UnknownServiceHandler(p.serve), grpc.MaxRecvMsgSize(64<<20))
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(lis) }) // ends with Stop
	t.Cleanup(func() {
		s.Stop()
		wg.Wait()
	})
	return p
}

func (p *rawPlane) serve(_ any, g grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(g)
	p.mu.Lock()
	i := len(p.streams)
	p.streams = append(p.streams, rawStream{method: method})
	p.mu.Unlock()
	for n := 0; ; n++ {
		var m wire.Raw
		if err := g.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return p.end
			}
			return err
		}
		p.mu.Lock()
		p.streams[i].requests = append(p.streams[i].requests, m)
		p.mu.Unlock()
		if n < len(p.answers) {
			for _, a := range p.answers[n] {
				if err := g.SendMsg(a); err != nil {
					return err
				}
			}
		}
	}
}

// recorded are the streams with a method so far.
func (p *rawPlane) recorded(method string) (all []rawStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		if s.method == method {
			all = append(all, rawStream{s.method, slices.Clone(s.requests)})
		}
	}
	return all
}

// said is what a client got on a stream.
type said struct {
	responses []wire.Raw
	end       error
}

// openRaw opens a client's stream, of bytes, for as long as the test patiently waits.
func openRaw(t *testing.T, address, method string) grpc.ClientStream {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	g, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// play has a client send requests, each after the answers to those before, end its side, and read to the end.
func play(t *testing.T, address, method string, requests []wire.Raw, answers [][]wire.Raw) (got said) {
	t.Helper()
	g := openRaw(t, address, method)
	receive := func() bool {
		var m wire.Raw
		if err := g.RecvMsg(&m); err != nil {
			got.end = err
			return false
		}
		got.responses = append(got.responses, m)
		return true
	}
	for i, m := range requests {
		_ = g.SendMsg(m) // RecvMsg knows why it fails
		for range answers[i] {
			if !receive() {
				return got
			}
		}
	}
	_ = g.CloseSend()
	for receive() {
	}
	return got
}

// odd is a message in an encoding that no library chooses: a field of the future, a length with more bytes than it
// needs, and fields behind those that come after them.
func odd(t *testing.T, m proto.Message, typeField protowire.Number) wire.Raw {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	b = protowire.AppendTag(b, 1000, protowire.BytesType)
	b = append(b, 0x83, 0x80, 0x00, 'n', 'e', 'w') // 3, in three bytes
	b = protowire.AppendTag(b, typeField, protowire.BytesType)
	return protowire.AppendString(b, clusterType)
}

// forms are the four gRPC forms.
var forms = map[string]struct {
	method string
	state  bool
}{
	"state of the world, aggregated": {"/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources", true},
	"incremental, aggregated":        {"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources", false},
	"state of the world, one type":   {"/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters", true},
	"incremental, one type":          {"/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters", false},
	"of v2":                          {"/envoy.api.v2.ClusterDiscoveryService/StreamClusters", true},
}

// scriptOf is a conversation in a form.
func scriptOf(t *testing.T, state bool) (requests []wire.Raw, answers [][]wire.Raw) {
	t.Helper()
	node := &corev3.Node{Id: "n", Cluster: "edge", UserAgentName: "envoy"}
	large := strings.Repeat("x", 3<<20)
	if state {
		response := func(version, nonce, name string) wire.Raw {
			return odd(t, &discoveryv3.DiscoveryResponse{VersionInfo: version, Nonce: nonce, TypeUrl: "overridden", Resources: []*anypb.Any{clusterOf(t, name, version)}}, 4)
		}
		request := func(version, nonce string, node *corev3.Node, names ...string) wire.Raw {
			return odd(t, &discoveryv3.DiscoveryRequest{VersionInfo: version, ResponseNonce: nonce, Node: node, ResourceNames: names}, 4)
		}
		return []wire.Raw{request("", "", node, "a"), request("1", "x1", nil, "a", "b"), request("1", "x2", nil, "b"), request("3", "x9", node)},
			[][]wire.Raw{{response("1", "x1", "a")}, {response("2", "x2", "b"), response("2", "x2", "b"), response("0", "", large)}, {}, {response("3", "x9", "a")}}
	}
	response := func(version, nonce, name string, removed ...string) wire.Raw {
		return odd(t, &discoveryv3.DeltaDiscoveryResponse{
			SystemVersionInfo: version, Nonce: nonce, TypeUrl: "overridden", RemovedResources: removed,
			Resources: []*discoveryv3.Resource{{Name: name, Version: version, Aliases: []string{"z", "y"}, Resource: clusterOf(t, name, version)}},
		}, 4)
	}
	request := func(nonce string, node *corev3.Node, names ...string) wire.Raw {
		return odd(t, &discoveryv3.DeltaDiscoveryRequest{ResponseNonce: nonce, Node: node, ResourceNamesSubscribe: names, InitialResourceVersions: map[string]string{"a": "0"}}, 2)
	}
	return []wire.Raw{request("", node, "a"), request("x1", nil, "b"), request("x2", node), request("", nil)},
		[][]wire.Raw{{response("1", "x1", "a")}, {response("2", "x2", "b", "a", "a"), response("2", "x2", "b"), response("0", "", large)}, {}, {response("3", "x9", "a", "b")}}
}

// sameBytes compares messages byte for byte, in order.
func sameBytes(t *testing.T, what string, direct, passed []wire.Raw) {
	t.Helper()
	if !slices.EqualFunc(direct, passed, func(a, b wire.Raw) bool { return bytes.Equal(a, b) }) {
		t.Errorf("%s: %d messages direct, %d through the relay, or their bytes differ", what, len(direct), len(passed))
	}
}

// A client that is served 1:1 gets byte for byte and in order what it gets direct, and so does its control plane. The end is
// the same, with its details.
func TestPassthrough_ByteForByte(t *testing.T) {
	for name, f := range forms {
		t.Run(name, func(t *testing.T) {
			requests, answers := scriptOf(t, f.state)
			end, err := status.New(codes.ResourceExhausted, "enough").WithDetails(&errdetails.ErrorInfo{Reason: "quota"})
			if err != nil {
				t.Fatal(err)
			}
			plane := newRawPlane(t, answers, end.Err())
			cfg := configOf(upstreamAt("cp", plane.address))
			cfg.Passthrough = []config.PassRule{{}}
			r := run(t, cfg)
			direct := play(t, plane.address, f.method, requests, answers)
			passed := play(t, r.xds, f.method, requests, answers)
			if len(direct.responses) != 5 {
				t.Fatalf("direct: %d responses, %v", len(direct.responses), direct.end)
			}
			sameBytes(t, "responses", direct.responses, passed.responses)
			if !proto.Equal(status.Convert(direct.end).Proto(), status.Convert(passed.end).Proto()) {
				t.Errorf("the stream ended with %v, direct with %v", passed.end, direct.end)
			}
			streams := plane.recorded(f.method)
			if len(streams) != 2 {
				t.Fatalf("%d streams, want one direct and one through the relay", len(streams))
			}
			sameBytes(t, "requests", requests, streams[0].requests)
			sameBytes(t, "requests", requests, streams[1].requests)
			r.check()
		})
	}
}

// passes waits until a number of streams is served 1:1.
func (r *running) passes(streams int) {
	r.Helper()
	want := fmt.Sprintf(`xdsrelay_passthrough_streams{upstream="a"} %d`, streams)
	if _, ok := wait.Until(patience, func() bool { return strings.Contains(r.page("/metrics"), want+"\n") }); !ok {
		r.Fatalf("/metrics has no %q", want)
	}
}

// By command the streams of a fleet are served 1:1, each by a stream of its own, and by command the cache serves them again.
// Clients keep what they have, and the operator sees them.
func TestPassthrough_Command(t *testing.T) {
	plane := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", plane.address)))
	r.passes(0)
	fleet := []*follower{r.join("n"), r.join("m")}
	for _, f := range fleet {
		f.holds(contents{"x": "1"})
	}
	r.shows("/passthrough", `"rules": []`, `"passed": 0`, `"cached": 2`)
	r.shows("/passthrough?type=cds", `"cached": 0`) // the streams are aggregated
	if done := r.does("/passthrough/on", `{"upstream": "a"}`); done.Streams != 2 || done.Nothing {
		t.Errorf("on: %+v", done)
	}
	r.passes(2)
	r.shows("/passthrough", `"upstream": "a"`, "\"configured\": false,\n      \"passed\": 2", `"cached": 0`)
	r.shows("/status", `"passed": 2`, `"kind": "passed through"`, "The relay serves all streams to a 1:1, 2 now: ", "xdsrelay passthrough off --upstream a --yes")
	r.shows("/clients?node=n", `"passed_through": {`, `"upstream": "a"`, `"node": "n"`, `"variant": "delta-ads"`)
	plane.Apply(clustersOf(t, contents{"y": "1"}))
	for _, f := range fleet {
		f.holds(contents{"x": "1", "y": "1"})
	}
	if done := r.does("/passthrough/on", `{"upstream": "a"}`); !done.Nothing {
		t.Errorf("on again: %+v", done)
	}
	if code, answer := r.command("/passthrough/off", `{"scope": "s"}`); code != http.StatusBadRequest || !strings.Contains(answer, "there are upstream a, scope all, type all") {
		t.Errorf("off, of another scope: %d %s", code, answer)
	}
	if done := r.does("/passthrough/off", `{}`); done.Streams != 2 || done.Nothing {
		t.Errorf("off: %+v", done)
	}
	r.passes(0)
	plane.Apply(clustersOf(t, contents{"x": "2"}))
	for _, f := range fleet {
		f.holds(contents{"x": "2", "y": "1"})
		if f.change(func() { slices.Sort(f.gone) }); len(f.gone) > 0 {
			t.Errorf("a client lost %q", f.gone)
		}
	}
	if done := r.does("/passthrough/off", `{}`); !done.Nothing {
		t.Errorf("off again: %+v", done)
	}
	for _, line := range []string{`command="passthrough on"`, `command="passthrough off"`, "a stream ended that was served 1:1"} {
		if !strings.Contains(r.log.String(), line) {
			t.Errorf("the log has no %q", line)
		}
	}
	r.shows("/clients?gone=true", `"passed_through": {`)
	r.check()
}

// A command is refused that can mean nothing.
func TestPassthrough_Refused(t *testing.T) {
	cfg := configOf(upstreamAt("a", "127.0.0.1:1"), upstreamAt("polled", "127.0.0.1:1"))
	cfg.Upstreams[1].APIType, cfg.Upstreams[1].Authorities = config.REST, []string{"p"}
	r := run(t, cfg)
	for body, reason := range map[string]string{
		`{"upstream": "b"}`:      "there is no upstream",
		`{"upstream": "polled"}`: "is polled or made of files",
		`{"scope": ""}`:          "xdstp names have no streams of their own",
		`{"types": ["what"]}`:    "unknown type",
		`{"types": ["fcds"]}`:    "no discovery service of its own",
		`{"for": "1m"}`:          "only",
	} {
		for _, path := range []string{"/passthrough/on", "/passthrough/off"} {
			if code, answer := r.command(path, body); code != http.StatusBadRequest || !strings.Contains(answer, reason) {
				t.Errorf("%s %s: %d %s", path, body, code, answer)
			}
		}
	}
	if done := r.does("/passthrough/on", `{}`); len(done.Warnings) != 2 || !strings.Contains(done.Warnings[0], "one upstream") ||
		!strings.HasPrefix(done.Warnings[1], "clients of polled are not served 1:1") {
		t.Errorf("%+v", done)
	}
	r.shows("/status", "A rule has the relay serve all streams 1:1. It serves none so now.")
}

// Where no upstream has streams the command is refused: it would change nothing, and say that it had.
func TestPassthrough_NoStreams(t *testing.T) {
	cfg := configOf(upstreamAt("a", "127.0.0.1:1"))
	cfg.Upstreams[0].APIType = config.REST
	r := run(t, cfg)
	for _, body := range []string{`{}`, `{"types": ["cds"]}`} {
		if code, answer := r.command("/passthrough/on", body); code != http.StatusBadRequest || !strings.Contains(answer, "no client can be served 1:1: each upstream is polled or made of files (a)") {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
	r.shows("/passthrough", `"rules": []`)
}

// A rule with a type selects streams of the type's own service, and a stream that no rule selects is served from the cache,
// from its first request on.
func TestPassthrough_Type(t *testing.T) {
	requests, answers := scriptOf(t, true)
	plane := newRawPlane(t, answers, nil)
	cfg := configOf(upstreamAt("a", plane.address))
	cfg.Passthrough = []config.PassRule{{Type: "cds"}}
	r := run(t, cfg)
	perType, aggregated := forms["state of the world, one type"].method, forms["state of the world, aggregated"].method
	if got := play(t, r.xds, perType, requests, answers); len(got.responses) != 5 || len(plane.recorded(perType)) != 1 {
		t.Errorf("%d responses and %v, %d streams at the control plane", len(got.responses), got.end, len(plane.recorded(perType)))
	}
	_ = play(t, r.xds, aggregated, requests[:1], [][]wire.Raw{nil})
	if n := len(plane.recorded(aggregated)); n != 0 {
		t.Errorf("%d aggregated streams are served 1:1", n)
	}
	// The control plane is none that the cache can use; that the first request was read says the client's place.
	if !strings.Contains(r.page("/clients?gone=true"), `"node": "n"`) {
		t.Error("the first request of the stream that the cache serves is lost")
	}
}

// The key keeps it, and a reload begins and ends it. A reload that reaches the control plane in another way has the client
// connect again.
func TestPassthrough_Reload(t *testing.T) {
	plane, other := newPlaneServer(t, contents{"x": "1"}), newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", plane.address)))
	f := r.join("n")
	f.holds(contents{"x": "1"})
	r.reload(func(c *config.Config) { c.Passthrough = []config.PassRule{{Upstream: "a"}} })
	r.passes(1)
	r.reload(func(c *config.Config) { c.Upstreams[0].Endpoints = [][]string{{other.address}} })
	other.Apply(clustersOf(t, contents{"x": "2"}))
	f.holds(contents{"x": "2"})
	r.passes(1)
	if done := r.does("/passthrough/off", `{}`); len(done.Warnings) != 1 || !strings.Contains(done.Warnings[0], "a restart of the relay brings it back") {
		t.Errorf("%+v", done)
	}
	r.passes(0)
	r.reload(func(c *config.Config) { c.Server.RemovalWait = config.Duration(time.Second) })
	if r.relay.passage.On() {
		t.Error("a reload of another key takes the command back")
	}
	r.reload(func(c *config.Config) { c.Passthrough = []config.PassRule{{}} })
	r.passes(1)
	r.reload(func(c *config.Config) { c.Passthrough = nil })
	r.passes(0)
	f.holds(contents{"x": "2"})
	r.check()
}

// Access rules are in force for who is served 1:1: nothing is taken out of a message, so the stream ends that would have what
// they deny. The rule is named.
func TestPassthrough_ACC2(t *testing.T) {
	requests, answers := scriptOf(t, true)
	method := forms["state of the world, aggregated"].method
	for name, tt := range map[string]struct {
		rules     []config.AccessRule
		otherwise config.Effect
		requests  int
		responses int
		reason    string
	}{
		"a name in a request":  {allowing(`type == cds && name == "a"`), config.Deny, 1, 1, "no access rule allows"},
		"a name in a response": {[]config.AccessRule{{Name: "no-b", Match: `name.startsWith("xxx")`, Effect: config.Deny}}, config.Allow, 2, 3, `the access rule "no-b" denies`},
		"everything":           {nil, config.Deny, 0, 0, "no access rule allows"},
	} {
		t.Run(name, func(t *testing.T) {
			plane := newRawPlane(t, answers, nil)
			cfg := configOf(upstreamAt("a", plane.address))
			cfg.Passthrough = []config.PassRule{{}}
			cfg.Access.Otherwise, cfg.Access.Rules = tt.otherwise, tt.rules
			got := play(t, run(t, cfg).xds, method, requests, answers)
			if status.Code(got.end) != codes.PermissionDenied || !strings.Contains(got.end.Error(), tt.reason) {
				t.Errorf("the stream ended with %v", got.end)
			}
			if len(got.responses) != tt.responses {
				t.Errorf("%d responses, want %d", len(got.responses), tt.responses)
			}
			for _, s := range plane.recorded(method) {
				if len(s.requests) != tt.requests {
					t.Errorf("the control plane got %d requests, want %d", len(s.requests), tt.requests)
				}
			}
		})
	}
}

// A client gets no secret 1:1 that no rule gives it, whatever its request says of the type (ACC-4).
func TestPassthrough_ACC4(t *testing.T) {
	secret := wire.Raw(protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), secretType))
	secret = append(secret, odd(t, &discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{{TypeUrl: secretType, Value: []byte{10, 1, 's'}}}}, 5)...)
	plane := newRawPlane(t, [][]wire.Raw{{secret}}, nil)
	cfg := configOf(upstreamAt("a", plane.address))
	cfg.Passthrough = []config.PassRule{{}}
	r := run(t, cfg)
	ask := func(typeURL string) wire.Raw {
		b, err := proto.Marshal(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "n"}, TypeUrl: typeURL, ResourceNames: []string{"s"}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const sds = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets"
	for _, typeURL := range []string{"", secretType, clusterType} {
		got := play(t, r.xds, sds, []wire.Raw{ask(typeURL)}, [][]wire.Raw{{secret}})
		if status.Code(got.end) != codes.PermissionDenied || len(got.responses) > 0 {
			t.Errorf("asked for %q: %d responses, and the end %v", typeURL, len(got.responses), got.end)
		}
	}
}

// A stream that is served 1:1 ends when the relay drains, and its client is told to go elsewhere.
func TestPassthrough_Drain(t *testing.T) {
	plane := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", plane.address))
	cfg.Passthrough = []config.PassRule{{}}
	r := run(t, cfg)
	f := r.join("n")
	f.holds(contents{"x": "1"})
	r.passes(1)
	r.stop()
	plane.ends()
}

// A later request passes with its node too, by which the control plane may go: it is judged like the first one (STR-1).
func TestPassthrough_LaterNode_ACC5(t *testing.T) {
	method := forms["state of the world, aggregated"].method
	for name, tt := range map[string]struct {
		change func(*config.Config)
		second string
		want   codes.Code
		passed int
	}{
		"the same":                {func(*config.Config) {}, "n", codes.OK, 2},
		"one that changes naught": {func(c *config.Config) { c.Aggregation.Otherwise = config.Share }, "m", codes.OK, 2},
		"one of somebody else": {func(c *config.Config) {
			c.Access.Verify = []config.VerifyRule{{Name: "own", Require: `node.id == "n"`}}
		}, "m", codes.PermissionDenied, 1},
		"one of another scope": {func(c *config.Config) {
			c.Aggregation.Rules = []config.Rule{{Name: "apart", Match: "true", Scope: []string{"node.id"}}}
		}, "m", codes.Unavailable, 1},
		"one that gets less": {func(c *config.Config) {
			c.Access.Otherwise, c.Access.Rules = config.Deny, allowing(`node.id == "n"`)
		}, "m", codes.Unavailable, 1},
		"none after all": {func(c *config.Config) { c.Limits.NodeBytes = 1 << 10 }, strings.Repeat("m", 2<<10), codes.ResourceExhausted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			answers := [][]wire.Raw{{odd(t, &discoveryv3.DiscoveryResponse{}, 4)}, {}}
			plane := newRawPlane(t, answers, nil)
			cfg := configOf(upstreamAt("a", plane.address))
			cfg.Passthrough = []config.PassRule{{}}
			tt.change(cfg)
			r := run(t, cfg)
			requests := []wire.Raw{asking(t, "n", "a"), asking(t, tt.second, "a")}
			if got := play(t, r.xds, method, requests, answers); status.Code(got.end) != tt.want && (tt.want != codes.OK || !errors.Is(got.end, io.EOF)) {
				t.Errorf("the stream ended with %v", got.end)
			}
			for _, s := range plane.recorded(method) {
				if len(s.requests) != tt.passed {
					t.Errorf("the control plane got %d requests, want %d", len(s.requests), tt.passed)
				}
			}
		})
	}
}

// asking is a request for clusters.
func asking(t *testing.T, node string, names ...string) wire.Raw {
	t.Helper()
	b, err := proto.Marshal(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: node}, TypeUrl: clusterType, ResourceNames: names})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// From a reload on a client gets nothing that the new rules deny, although its stream may end later. One that may not be served
// any more ends at once.
func TestPassthrough_ReloadOfRules_ACC2_ACC5(t *testing.T) {
	method := forms["state of the world, aggregated"].method
	response, err := proto.Marshal(&discoveryv3.DiscoveryResponse{TypeUrl: clusterType, Resources: []*anypb.Any{clusterOf(t, "b", "1")}})
	if err != nil {
		t.Fatal(err)
	}
	noB := []config.AccessRule{{Name: "no-b", Match: `name == "b"`, Effect: config.Deny}}
	for name, tt := range map[string]struct {
		change func(*config.Config)
		second string // "": the client asks for nothing more
		want   string
	}{
		"a name in a request":  {func(c *config.Config) { c.Access.Otherwise, c.Access.Rules = config.Allow, noB }, "b", `"no-b" denies`},
		"a name in a response": {func(c *config.Config) { c.Access.Otherwise, c.Access.Rules = config.Allow, noB }, "c", `"no-b" denies`},
		"a node": {func(c *config.Config) {
			c.Access.Verify = []config.VerifyRule{{Name: "nobody", Require: `node.id == "x"`}}
		}, "", `"nobody"`},
		"a client": {func(c *config.Config) {
			c.Aggregation.Rules, c.Aggregation.Otherwise = []config.Rule{{Name: "x", Match: `node.id == "x"`, Scope: []string{}}}, "refuse"
		}, "", "PermissionDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			plane := newRawPlane(t, [][]wire.Raw{{response}, {response}}, nil)
			cfg := configOf(upstreamAt("a", plane.address))
			cfg.Passthrough = []config.PassRule{{}}
			r := run(t, cfg)
			g := openRaw(t, r.xds, method)
			var m wire.Raw
			if err := errors.Join(g.SendMsg(asking(t, "n", "a")), g.RecvMsg(&m)); err != nil {
				t.Fatal(err)
			}
			r.reload(func(c *config.Config) {
				c.Server.Drain = config.Duration(time.Hour)
				tt.change(c)
			})
			if tt.second != "" {
				_ = g.SendMsg(asking(t, "n", tt.second)) // RecvMsg knows why it fails
			}
			if err := g.RecvMsg(&m); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the stream ended with %v", err)
			}
			r.reload(func(c *config.Config) { c.Server.Drain = 0 })
		})
	}
}
