package watch

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// scripted is what servers of either form play: each element is one stream, or one run of polls. A second passes
// between two responses. The last stream stays open.
type scripted[Response any] [][]*Response

// play plays the next stream.
func play[Request, Response any](mu *sync.Mutex, streams *scripted[Response], end error, g grpc.BidiStreamingServer[Request, Response]) error {
	mu.Lock()
	if len(*streams) == 0 {
		mu.Unlock()
		return end
	}
	script := (*streams)[0]
	*streams = (*streams)[1:]
	last := len(*streams) == 0 && end == nil
	mu.Unlock()
	for _, r := range script {
		if err := g.Send(r); err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-g.Context().Done():
		}
	}
	if last {
		<-g.Context().Done()
	}
	return status.Error(codes.Unavailable, "going away")
}

// server plays incremental streams, and then ends them with end if that is set.
type server struct {
	mu      sync.Mutex
	streams scripted[discoveryv3.DeltaDiscoveryResponse]
	end     error
}

func serve(t *testing.T, s *server) *grpc.ClientConn {
	t.Helper()
	return connect(t, &plane.Script{Delta: func(g plane.DeltaStream) error { return play(&s.mu, &s.streams, s.end, g) }})
}

// connect gives a connection to a scripted control plane.
func connect(t *testing.T, s *plane.Script) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	s.Serve(lis)
	conn, err := xdsclient.Dial("passthrough:///server", nil, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return lis.DialContext(ctx)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
	})
	return conn
}

func cluster(name string, seconds int64) *discoveryv3.Resource {
	return &discoveryv3.Resource{
		Name: name, Version: "v" + string(rune('0'+seconds)),
		Resource: encoded.Any(&clusterv3.Cluster{Name: name, ConnectTimeout: &durationpb.Duration{Seconds: seconds}}),
	}
}

func inline(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

// private is what must not be shown wherever it stands.
const private = "PRIVATE"

func tlsCertificate() *tlsv3.TlsCertificate {
	return &tlsv3.TlsCertificate{CertificateChain: inline("chain"), PrivateKey: inline(private), Password: inline(private)}
}

func secretResource() *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: "cert", Version: "v1", Resource: encoded.Any(&tlsv3.Secret{
		Name: "cert", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: tlsCertificate()},
	})}
}

// withKey is a cluster with a private key in a payload of its payload.
func withKey() *discoveryv3.Resource {
	context := &tlsv3.UpstreamTlsContext{Sni: "example.com", CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{tlsCertificate()}}}
	return &discoveryv3.Resource{Name: "tls", Version: "v1", Resource: encoded.Any(&clusterv3.Cluster{
		Name: "tls",
		TransportSocket: &corev3.TransportSocket{
			Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: encoded.Any(context)},
		},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			"known":   encoded.Any(&tlsv3.Secret{Name: "s", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: tlsCertificate()}}),
			"unknown": {TypeUrl: "type.googleapis.com/example.Unknown", Value: []byte("what is it")},
		},
	})}
}

func delta(typeURL, nonce string, resources ...*discoveryv3.Resource) *discoveryv3.DeltaDiscoveryResponse {
	return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, SystemVersionInfo: "s" + nonce, Resources: resources}
}

func without(r *discoveryv3.DeltaDiscoveryResponse, removed ...string) *discoveryv3.DeltaDiscoveryResponse {
	r.RemovedResources = removed
	return r
}

// everything has each kind of change, and names and versions that are made to be trouble.
func everything() []*discoveryv3.DeltaDiscoveryResponse {
	failed := delta(resource.ClusterType, "6")
	failed.ResourceErrors = []*discoveryv3.ResourceError{{
		ResourceName: &discoveryv3.ResourceName{Name: "cart"},
		ErrorDetail:  status.New(codes.Unavailable, "no\x1b[31m idea").Proto(),
	}}
	odd := cluster("line\nbreak \x1b[2J \u009b", 1)
	odd.Version = strings.Repeat("0123456789", 4)
	odd.Ttl, odd.Aliases = durationpb.New(time.Minute), []string{"other"}
	return []*discoveryv3.DeltaDiscoveryResponse{
		delta(resource.ClusterType, "1", cluster("checkout", 1), cluster("cart", 1)),
		without(delta(resource.ClusterType, "2", cluster("cart", 2), &discoveryv3.Resource{Name: "checkout", Version: "v1"}), "absent"),
		without(delta(resource.ClusterType, "3", cluster("cart", 2)), "checkout"),
		delta(resource.ClusterType, "4", odd),
		delta(resource.ClusterType, "5", cluster("twice", 1), cluster("twice", 1)),
		failed,
		delta(resource.ClusterType, "7"),
		delta(resource.EndpointType, "8", &discoveryv3.Resource{Name: "b", Version: "1"}, &discoveryv3.Resource{Name: "c", Version: "1"}),
		delta("type.googleapis.com/example.Thing", "9", &discoveryv3.Resource{Name: "thing", Version: "1", Resource: &anypb.Any{TypeUrl: "type.googleapis.com/example.Thing", Value: []byte{1}}}),
	}
}

func secrets() []*discoveryv3.DeltaDiscoveryResponse {
	return []*discoveryv3.DeltaDiscoveryResponse{
		delta(resource.ClusterType, "1", cluster("plain", 1), withKey()),
		delta(resource.SecretType, "2", secretResource()),
		delta("type.googleapis.com/example.Thing", "3", &discoveryv3.Resource{Name: "thing", Version: "1", Resource: &anypb.Any{TypeUrl: "type.googleapis.com/example.Thing", Value: []byte{1}}}),
	}
}

func all() []Subscription {
	return []Subscription{
		{TypeURL: resource.ClusterType}, {TypeURL: resource.EndpointType, Names: []string{"b"}},
		{TypeURL: resource.SecretType}, {TypeURL: "type.googleapis.com/example.Thing"},
	}
}

func TestOutput(t *testing.T) {
	for _, tt := range []struct {
		golden  string
		streams [][]*discoveryv3.DeltaDiscoveryResponse
		options Options
	}{
		{"changes.txt", [][]*discoveryv3.DeltaDiscoveryResponse{everything()}, Options{}},
		{"colors.txt", [][]*discoveryv3.DeltaDiscoveryResponse{everything()}, Options{Color: true}},
		{"changes.json", [][]*discoveryv3.DeltaDiscoveryResponse{everything()}, Options{Format: JSON, Color: true}},
		{"payload.txt", [][]*discoveryv3.DeltaDiscoveryResponse{secrets()}, Options{Payload: true}},
		{"payload.json", [][]*discoveryv3.DeltaDiscoveryResponse{secrets()}, Options{Payload: true, Format: JSON}},
		{"lost.txt", [][]*discoveryv3.DeltaDiscoveryResponse{
			{delta(resource.ClusterType, "1", cluster("a", 1))},
			{delta(resource.ClusterType, "1", cluster("b", 1))},
		}, Options{}},
		{"lost.json", [][]*discoveryv3.DeltaDiscoveryResponse{
			{delta(resource.ClusterType, "1", cluster("a", 1))},
			{delta(resource.ClusterType, "1", cluster("b", 1))},
		}, Options{Format: JSON}},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := serve(t, &server{streams: tt.streams})
				o := tt.options
				o.Target, o.Subscriptions, o.Timeout = "server:18100", all(), 30*time.Second
				// The shortest delay there is, so that the golden files need no luck.
				o.Backoff = xdsclient.Backoff{Base: 1, Max: 1}
				var out bytes.Buffer
				if err := Run(t.Context(), Transport{Conn: conn}, &out, o); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(out.String(), private) {
					t.Error("OPS-6: a secret is shown")
				}
				golden(t, tt.golden, out.Bytes())
			})
		})
	}
}

func TestOnce(t *testing.T) {
	first := delta(resource.ClusterType, "1", cluster("a", 1))
	second := delta(resource.ClusterType, "2", cluster("b", 1))
	both := []Subscription{{TypeURL: resource.ClusterType, Names: []string{"a", "b"}}}
	going := status.Error(codes.Unavailable, "going away")
	for _, tt := range []struct {
		name    string
		subs    []Subscription
		script  []*discoveryv3.DeltaDiscoveryResponse
		end     error
		timeout time.Duration
		after   time.Duration
		shown   []string
		err     string
	}{
		{"answered at once", []Subscription{{TypeURL: resource.ClusterType}}, []*discoveryv3.DeltaDiscoveryResponse{first}, nil, 0, Quiet, []string{"a"}, ""},
		{"every name", both, []*discoveryv3.DeltaDiscoveryResponse{first, second}, nil, 0, time.Second + Quiet, []string{"a", "b"}, ""},
		{"time is up", both, []*discoveryv3.DeltaDiscoveryResponse{first}, nil, 5 * time.Second, 5 * time.Second, []string{"a"}, "no complete answer for cds within 5s"},
		{"time is up while it is not quiet", both, []*discoveryv3.DeltaDiscoveryResponse{first, second}, nil, time.Second + Quiet/2, time.Second + Quiet/2, []string{"a", "b"}, ""},
		{"a lost stream is not tried again", both, []*discoveryv3.DeltaDiscoveryResponse{first}, going, 0, time.Second, []string{"a"}, "going away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := serve(t, &server{streams: [][]*discoveryv3.DeltaDiscoveryResponse{tt.script}, end: tt.end})
				start := time.Now()
				var out bytes.Buffer
				err := Run(t.Context(), Transport{Conn: conn}, &out, Options{Subscriptions: tt.subs, Once: true, Timeout: tt.timeout})
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				if d := time.Since(start); d != tt.after {
					t.Errorf("took %v, want %v", d, tt.after)
				}
				for _, name := range tt.shown {
					if !strings.Contains(out.String(), "+ "+name) {
						t.Errorf("%s is not shown:\n%s", name, out.String())
					}
				}
			})
		})
	}
}

func TestRun_ends(t *testing.T) {
	t.Run("by the context", func(t *testing.T) {
		for once, want := range map[bool]error{false: nil, true: context.DeadlineExceeded} {
			synctest.Test(t, func(t *testing.T) {
				conn := serve(t, &server{streams: [][]*discoveryv3.DeltaDiscoveryResponse{nil}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := Run(ctx, Transport{Conn: conn}, new(bytes.Buffer), Options{Subscriptions: all(), Once: once}); !errors.Is(err, want) {
					t.Errorf("once %t: %v, want %v", once, err, want)
				}
			})
		}
	})
	t.Run("by an error that stays", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn := serve(t, &server{end: status.Error(codes.PermissionDenied, "no")})
			if err := Run(t.Context(), Transport{Conn: conn}, new(bytes.Buffer), Options{Subscriptions: all()}); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%v", err)
			}
		})
	})
	t.Run("by the time, without ever a connection", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn, err := xdsclient.Dial("passthrough:///nobody", nil, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				return nil, errors.New("nobody there")
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			var out bytes.Buffer
			if err := Run(t.Context(), Transport{Conn: conn}, &out, Options{Subscriptions: all(), Timeout: time.Minute}); err != nil {
				t.Error(err)
			}
			line, _, _ := strings.Cut(out.String(), "\n")
			if !strings.Contains(line, "  no connection, next try in ") || !strings.Contains(line, "nobody there") {
				t.Errorf("printed %q", line)
			}
		})
	})
	t.Run("by an output that takes no more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn := serve(t, &server{streams: [][]*discoveryv3.DeltaDiscoveryResponse{everything()}})
			if err := Run(t.Context(), Transport{Conn: conn}, full{}, Options{Subscriptions: all()}); !errors.Is(err, errFull) {
				t.Errorf("%v", err)
			}
		})
	})
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
