package relay

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// provoker is a client, or somebody at the admin port, that has the relay log.
type provoker struct {
	*trust

	conn  *grpc.ClientConn
	times int // that it did so
}

// subscribe opens a stream with names, reads a response, and answers it.
func (p *provoker) subscribe(rejection *status.Status, names ...string) {
	p.Helper()
	stream := p.begin(p.conn, "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
		&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "a"}, TypeUrl: clusterType, ResourceNamesSubscribe: names})
	r := new(discovery.DeltaDiscoveryResponse)
	if err := stream.RecvMsg(r); err != nil {
		p.Fatal(err)
	}
	if err := stream.SendMsg(&discovery.DeltaDiscoveryRequest{TypeUrl: clusterType, ResponseNonce: r.GetNonce(), ErrorDetail: rejection}); err != nil {
		p.Fatal(err)
	}
}

// request sends one to the admin port.
func (p *provoker) request(method, path, host, body string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), method, "http://"+p.admin+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	r.Host = host
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	_ = answer.Body.Close()
}

// provocations are lines that others can have the relay log, each with a way to do it.
var provocations = []struct {
	message string
	provoke func(*provoker)
}{
	{"a client's TLS handshake failed", func(p *provoker) {
		with := p.tls("spiffe://td/a")
		with.RootCAs = pki.NewAuthority(p.T, "another").Pool()
		if conn, err := tls.Dial("tcp", p.xds, with); err == nil {
			_ = conn.Close()
			p.Error("the handshake did not fail")
		}
	}},
	{"a client called a method that the relay does not have", func(p *provoker) {
		if err := p.conn.Invoke(p.Context(), "/example.Service/"+strings.Repeat("x", 10_000), new(emptypb.Empty), new(emptypb.Empty)); err == nil {
			p.Error("the relay has the method")
		}
	}},
	{"access.verify refuses a client's node", func(p *provoker) {
		_, _ = code(p.begin(p.conn, openForms[0].method, firstDelta(&corev3.Node{Id: strings.Repeat("b", 10_000)})))
	}},
	{"a client's bearer token is refused", func(p *provoker) {
		ctx := metadata.AppendToOutgoingContext(p.Context(), "authorization", "Bearer "+strings.Repeat("c", 1000))
		stream, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, openForms[0].method)
		if err == nil {
			_ = stream.SendMsg(firstDelta(&corev3.Node{Id: "a"})) // what comes back says why it fails
			_, _ = code(stream)
		}
	}},
	{"client rejected a response", func(p *provoker) {
		p.subscribe(&status.Status{Code: int32(codes.InvalidArgument), Message: strings.Repeat("d\x1b", 10_000)}, "a")
	}},
	{"refused a subscription", func(p *provoker) {
		p.subscribe(nil, "xdstp://a.example.com/envoy.config.cluster.v3.Cluster/%zz"+strings.Repeat("e", 10_000))
	}},
	{"refused subscriptions without an answer", func(p *provoker) {
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("f%d-", i)+strings.Repeat("f", 1000))
		}
		p.subscribe(nil, names...)
	}},
	{"refused a load report", func(p *provoker) {
		stream := p.begin(p.conn, loadv3.LoadReportingService_StreamLoadStats_FullMethodName, firstReport(&corev3.Node{Id: "a"}))
		if err := stream.RecvMsg(new(loadv3.LoadStatsResponse)); err != nil {
			p.Fatal(err)
		}
		if err := stream.SendMsg(&loadv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{{
			ClusterName: strings.Repeat("g", 10_000), LoadReportInterval: durationpb.New(-1),
		}}}); err != nil {
			p.Fatal(err)
		}
		_, _ = code(stream)
	}},
	{"session started", func(p *provoker) {
		_, _ = code(p.begin(p.conn, openForms[0].method, firstDelta(&corev3.Node{Id: "a", Cluster: fmt.Sprint(p.times)})))
	}},
	{"connected", func(p *provoker) {
		_, _ = code(p.begin(p.conn, openForms[0].method, firstDelta(&corev3.Node{Id: "a", UserAgentName: fmt.Sprint(p.times)})))
	}},
	{"the admin port refused a request", func(p *provoker) {
		p.request(http.MethodGet, "/"+strings.Repeat("h", 10_000), strings.Repeat("h", 1000)+".example.com", "")
	}},
	{"refused an operator's command", func(p *provoker) {
		p.request(http.MethodPost, "/hold", "", `{"nonsense": true}`)
	}},
}

// Of each line that others can provoke the log has as many in a minute as it may have, shortened, and
// then the number of the rest; a metric counts these. A reload changes the limit (LIM-4).
func TestLogLines_LIM4(t *testing.T) {
	issuer, file := tokens.NewIssuer(t, issuerName, "1"), filepath.Join(t.TempDir(), "keys.json")
	tokens.File(t, file, issuer.Key())
	tr := newTrust(t, func(c *config.Config) {
		requireOwnNode(c)
		c.Limits.Subscriptions = 4
		c.Server.Identity.JWT = []config.Issuer{{Issuer: issuerName, Audiences: []string{"xds"}, JWKSFile: file}}
		c.Log.PerMinute = 1
	})
	p := &provoker{trust: tr, conn: tr.dial("spiffe://td/a")}
	lines := func(message string) int {
		n := 0
		for line := range strings.Lines(tr.log.String()) {
			if strings.Contains(line, fmt.Sprintf(" msg=%q ", message)) || strings.Contains(line, fmt.Sprintf(" msg=%s ", message)) {
				n++
			}
		}
		return n
	}
	left := func(message string, want int) bool {
		_, is := wait.Until(patience, func() bool {
			for n := want; n < want+10; n++ { // a session for one line begins for others too
				if strings.Contains(tr.page("/metrics"), fmt.Sprintf(`xdsrelay_log_left_out_lines_total{message=%q} %d`, message, n)) {
					return true
				}
			}
			return false
		})
		return is
	}
	for _, tt := range provocations {
		for range 4 {
			p.times++
			tt.provoke(p)
		}
		if !left(tt.message, 3) || lines(tt.message) != 1 {
			t.Errorf("LIM-4: %d lines of %q:\n%s", lines(tt.message), tt.message, tr.page("/metrics"))
		}
	}
	tr.reload(func(c *config.Config) { c.Log.PerMinute = 3 })
	for _, tt := range provocations {
		for range 4 {
			p.times++
			tt.provoke(p)
		}
		if _, is := wait.Until(patience, func() bool { return lines(tt.message) == 3 }); !is {
			t.Errorf("LIM-4: %d lines of %q", lines(tt.message), tt.message)
		}
	}
	tr.check()
	tr.stop()
	log := tr.log.String()
	for _, tt := range provocations {
		if message := fmt.Sprintf("message=%q left_out=", tt.message); strings.Count(log, message)+strings.Count(log, strings.ReplaceAll(message, `"`, "")) != 1 {
			t.Errorf("LIM-4: the log has no %s", message)
		}
	}
	for line := range strings.Lines(log) {
		if len(line) > 3000 && !strings.Contains(line, "client rejected") || len(line) > 3*5000 {
			t.Errorf("LIM-4: a line of %d bytes: %.300s", len(line), line)
		}
	}
}
