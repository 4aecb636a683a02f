package relay

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/keyer"
)

const relayHost = "relay.test"

// trust is a relay with mutual TLS, and the authority of its clients.
type trust struct {
	*running

	dir  *pki.Folder
	ca   *pki.Authority
	rest string
}

func newTrust(t *testing.T, change func(*config.Config)) *trust {
	t.Helper()
	return newTrustWith(t, change, func(*Relay) {})
}

// newTrustWith is newTrust of a relay that more is done to before it runs.
func newTrustWith(t *testing.T, change func(*config.Config), more func(*Relay)) *trust {
	t.Helper()
	tr := &trust{dir: pki.NewFolder(t), ca: pki.NewAuthority(t, "clients")}
	p := newPlaneServerAt(t, anyPort, contents{"a": "1"}, func(s grpc.ServiceRegistrar) {
		loadv3.RegisterLoadReportingServiceServer(s, reportsTaker{})
	})
	cfg := configOf(upstreamAt("plane", p.address))
	cfg.Upstreams[0].Settle = config.Duration(100 * time.Millisecond) // lists are complete soon
	cfg.Server.RESTWait = config.Duration(time.Minute)                // polls are held until something ends them
	certFile, keyFile := tr.dir.PutPair("relay", tr.ca.Server(relayHost))
	cfg.Server.TLS = &config.ServerTLS{CertFile: certFile, KeyFile: keyFile, ClientCAFile: tr.dir.PutCA("clients", tr.ca)}
	change(cfg)
	rest, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr.rest = rest.Addr().String()
	tr.running = runWith(t, cfg, func(r *Relay) {
		r.ServeREST(rest)
		more(r)
	})
	return tr
}

// reportsTaker takes load reports, and wants one every hour.
type reportsTaker struct {
	loadv3.UnimplementedLoadReportingServiceServer
}

func (reportsTaker) StreamLoadStats(g loadv3.LoadReportingService_StreamLoadStatsServer) error {
	if _, err := g.Recv(); err != nil {
		return err
	}
	if err := g.Send(&loadv3.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(time.Hour)}); err != nil {
		return err
	}
	<-g.Context().Done()
	return nil
}

// tls gives what a client with a SPIFFE ID dials with.
func (tr *trust) tls(id string) *tls.Config {
	return &tls.Config{
		RootCAs: tr.ca.Pool(), ServerName: relayHost, MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{tr.ca.Client("client", pki.URI(id))},
	}
}

// dial connects a client with a SPIFFE ID.
func (tr *trust) dial(id string) *grpc.ClientConn {
	tr.Helper()
	conn, err := grpc.NewClient(tr.xds, grpc.WithTransportCredentials(credentials.NewTLS(tr.tls(id))))
	if err != nil {
		tr.Fatal(err)
	}
	tr.Cleanup(func() { _ = conn.Close() })
	return conn
}

// openForms are the methods by which clients subscribe and report.
var openForms = []struct {
	method string
	first  func(*corev3.Node) proto.Message
}{
	{"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources", firstDelta},
	{"/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources", firstState},
	{"/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters", firstDelta},
	{"/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters", firstState},
	{"/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources", firstState},
	{"/envoy.api.v2.ClusterDiscoveryService/StreamClusters", firstState},
	{loadv3.LoadReportingService_StreamLoadStats_FullMethodName, firstReport},
}

func firstDelta(node *corev3.Node) proto.Message {
	return &discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: clusterType}
}

func firstState(node *corev3.Node) proto.Message {
	return &discovery.DiscoveryRequest{Node: node, TypeUrl: clusterType}
}

func firstReport(node *corev3.Node) proto.Message { return &loadv3.LoadStatsRequest{Node: node} }

// begin opens a stream with its first request.
func (tr *trust) begin(conn *grpc.ClientConn, method string, first proto.Message) grpc.ClientStream {
	tr.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience/3)
	tr.Cleanup(cancel)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		tr.Fatal(err)
	}
	_ = stream.SendMsg(first) // what comes back says why it fails
	return stream
}

// code gives the status that a stream ends with; OK if it gets a response instead.
func code(stream grpc.ClientStream) (codes.Code, string) {
	err := stream.RecvMsg(new(emptypb.Empty)) // whatever it is
	return status.Code(err), status.Convert(err).Message()
}

// poll polls for clusters with a node's ID, and gives the HTTP status.
func (tr *trust) poll(id, node string) (statusCode int, body string) {
	tr.Helper()
	transport := &http.Transport{TLSClientConfig: tr.tls(id)}
	tr.Cleanup(transport.CloseIdleConnections)
	return tr.post(&http.Client{Transport: transport}, node, "")
}

// holdPoll has a client poll until it has what there is, and then once more: the HTTP status of that
// poll comes later.
func (tr *trust) holdPoll(with *tls.Config, node string) <-chan int {
	tr.Helper()
	transport := &http.Transport{TLSClientConfig: with}
	tr.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	_, body := tr.post(client, node, "")
	var first struct {
		Version string `json:"versionInfo"`
	}
	if err := json.Unmarshal([]byte(body), &first); err != nil || first.Version == "" {
		tr.Fatalf("%v: %s", err, body)
	}
	later := make(chan int, 1)
	go func() {
		got, _ := tr.post(client, node, first.Version)
		later <- got
	}()
	if _, is := wait.Until(patience, func() bool { return strings.Contains(tr.page("/clients"), `"variant": "rest"`) }); !is {
		tr.Fatal("the poll is not held")
	}
	return later
}

func (tr *trust) post(client *http.Client, node, version string) (statusCode int, body string) {
	tr.Helper()
	return tr.postTo("https://"+tr.rest, client, node, version)
}

func (tr *trust) postTo(url string, client *http.Client, node, version string) (statusCode int, body string) {
	tr.Helper()
	text := `{"node":{"id":"` + node + `"},"version_info":"` + version + `"}`
	r, err := http.NewRequest(http.MethodPost, url+"/v3/discovery:clusters", strings.NewReader(text))
	if err != nil {
		tr.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		tr.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		tr.Error(err)
	}
	return answer.StatusCode, string(b)
}

// requireOwnNode lets clients present the node that their certificate names.
func requireOwnNode(c *config.Config) {
	c.Access.Verify = []config.VerifyRule{
		{Name: "own-node", Require: `peer.spiffe == "spiffe://td/" + node.id`},
		{Name: "role", Require: `node.cluster != "roles" || node.metadata.role == "x"`},
	}
}

// Clients of every form are refused with a node that is not theirs, with none, and if a rule fails.
func TestVerify_ACC5(t *testing.T) {
	tr := newTrust(t, func(c *config.Config) {
		requireOwnNode(c)
		c.Limits.FirstRequest = config.Duration(time.Second) // for which a node is waited for
	})
	conn := tr.dial("spiffe://td/a")
	refused := 0
	for _, form := range openForms {
		for _, tt := range []struct {
			name   string
			node   *corev3.Node
			served bool
			rule   string
		}{
			{"its own", &corev3.Node{Id: "a"}, true, ""},
			{"another's", &corev3.Node{Id: "b"}, false, "own-node"},
			{"none", nil, false, "own-node"},
			{"one for which a rule fails", &corev3.Node{Id: "a", Cluster: "roles"}, false, "role"},
		} {
			got, text := code(tr.begin(conn, form.method, form.first(tt.node)))
			if tt.served {
				if got != codes.OK {
					t.Errorf("ACC-5: %s with its own node: %v: %s", form.method, got, text)
				}
				continue
			}
			refused++
			if want := `access.verify: the rule "` + tt.rule + `" does not let this client present its node`; got != codes.PermissionDenied || text != want {
				t.Errorf("ACC-5: %s with %s: %v: %s", form.method, tt.name, got, text)
			}
		}
	}
	if got, body := tr.poll("spiffe://td/a", "a"); got != http.StatusOK {
		t.Errorf("ACC-5: a poll with its own node: %d: %s", got, body)
	}
	if got, body := tr.poll("spiffe://td/a", "b"); got != http.StatusForbidden || !strings.Contains(body, "own-node") {
		t.Errorf("ACC-5: a poll with another's node: %d: %s", got, body)
	}
	tr.shows("/metrics",
		`xdsrelay_access_unverified_total{rule="own-node"} 15`,
		`xdsrelay_access_unverified_total{rule="role"} 7`)
	log := tr.log.String()
	if refused != 21 || strings.Count(log, "access.verify refuses a client's node") != 22 ||
		!strings.Contains(log, `identity=spiffe://td/a node=b rule=own-node reason="require: peer.spiffe ==`) {
		t.Errorf("LIM-4: %d streams were refused, and the log has\n%s", refused, log)
	}
	tr.check()
}

// A reload that changes the rules ends the streams and held polls of clients that fail now, and of
// nobody else.
func TestVerifyReload_ACC5_AGG4(t *testing.T) {
	tr := newTrust(t, func(c *config.Config) { c.Aggregation.Otherwise = config.Share })
	own := tr.joinWith(credentials.NewTLS(tr.tls("spiffe://td/a")), "a")
	other := tr.begin(tr.dial("spiffe://td/a"), openForms[1].method, firstState(&corev3.Node{Id: "b"}))
	own.holds(contents{"a": "1"})
	if got, text := code(other); got != codes.OK {
		t.Fatalf("%v: %s", got, text)
	}
	held := tr.holdPoll(tr.tls("spiffe://td/a"), "b")

	tr.reload(requireOwnNode)
	if got, text := code(other); got != codes.PermissionDenied || !strings.Contains(text, "own-node") {
		t.Errorf("ACC-5: the stream ended with %v: %s", got, text)
	}
	if got := <-held; got != http.StatusForbidden {
		t.Errorf("ACC-5: the held poll was answered with %d", got)
	}
	tr.shows("/metrics", `xdsrelay_access_unverified_total{rule="own-node"} 2`,
		`xdsrelay_downstream_streams_ended_by_move_total{reason="unverified"} 1`)
	if lost := own.lost(); lost != "" {
		t.Errorf("ACC-5: the client with its own node lost %s", lost)
	}
	// A rule that cannot work changes nothing (AGG-4).
	bad := *tr.config
	bad.Access.Verify = []config.VerifyRule{{Name: "typo", Require: "node.idd == peer.spiffe"}}
	if err := tr.relay.Reload(&bad); err == nil || !strings.Contains(err.Error(), `undefined field "idd"`) {
		t.Errorf("AGG-4: %v", err)
	}
	if got, _ := tr.poll("spiffe://td/a", "b"); got != http.StatusForbidden {
		t.Errorf("AGG-4: a poll after a reload that failed: %d", got)
	}
	tr.reload(func(c *config.Config) { c.Access.Verify = nil })
	if got, _ := tr.poll("spiffe://td/a", "b"); got != http.StatusOK {
		t.Errorf("ACC-5: a poll without rules: %d", got)
	}
	if strings.Contains(tr.page("/metrics"), `xdsrelay_access_unverified_total{`) {
		t.Error("the metrics have rules that are not in force")
	}
	tr.check()
}

// A client that reports its load is looked at again after a reload.
func TestVerifyReports_ACC5_LRS1(t *testing.T) {
	r := run(t, configOf(upstreamAt("plane", newPlaneServer(t, contents{}).address)))
	place, err := r.relay.router.Find(t.Context(), &corev3.Node{Id: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	r.reload(func(c *config.Config) {
		c.Access.Verify = []config.VerifyRule{{Name: "no-a", Require: `node.id != "a"`}}
	})
	if err := place.Check(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("ACC-5: %v", err)
	}
	if _, err := r.relay.router.Find(t.Context(), &corev3.Node{Id: "a"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("ACC-5: %v", err)
	}
}

// BenchmarkOpen measures what a stream costs more when it begins: at most 20 µs (ACC-5).
func BenchmarkOpen(b *testing.B) {
	for name, change := range map[string]func(*config.Config){"no rules": func(*config.Config) {}, "two rules": requireOwnNode} {
		b.Run(name, func(b *testing.B) {
			cfg := configOf(upstreamAt("plane", "127.0.0.1:1"))
			change(cfg)
			p, err := newPlan(cfg)
			if err != nil {
				b.Fatal(err)
			}
			rt := new(router)
			rt.now.Store(p)
			node, peer := &corev3.Node{Id: "a", Cluster: "shop"}, &keyer.Peer{SPIFFE: "spiffe://td/a", URIs: []string{"spiffe://td/a"}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rt.Open(node, peer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A rule that fails under refuse refuses clients of every form: the next rule, which would match,
// does not serve them (AGG-2).
func TestFailedRuleRefuses_AGG2(t *testing.T) {
	tr := newTrust(t, func(c *config.Config) {
		c.Aggregation.Otherwise = config.Refuse
		c.Aggregation.Rules = []config.Rule{
			{Name: "roles", Match: `node.metadata.role == "x"`, Scope: []string{}},
			{Name: "rest", Match: "true", Scope: []string{}},
		}
	})
	conn := tr.dial("spiffe://td/a")
	for _, form := range openForms {
		got, text := code(tr.begin(conn, form.method, form.first(&corev3.Node{Id: "a"})))
		if got != codes.PermissionDenied || !strings.Contains(text, `aggregation rule "roles" refuses`) {
			t.Errorf("AGG-2: %s: %v: %s", form.method, got, text)
		}
	}
	if got, body := tr.poll("spiffe://td/a", "a"); got != http.StatusForbidden {
		t.Errorf("AGG-2: a poll: %d: %s", got, body)
	}
	role, err := structpb.NewStruct(map[string]any{"role": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if got, text := code(tr.begin(conn, openForms[0].method, firstDelta(&corev3.Node{Id: "a", Metadata: role}))); got != codes.OK {
		t.Errorf("AGG-2: a client for which the rule is true: %v: %s", got, text)
	}
}
