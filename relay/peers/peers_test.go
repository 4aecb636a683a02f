package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

const (
	cds = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	eds = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// counts implement Observer, and Stores with one store.
type counts struct {
	store *cache.Store
	asOf  time.Time

	gave, ignored, passed atomic.Int64
}

func (*counts) Asked(Result) {}
func (*counts) Taken(int)    {}
func (c *counts) Gave(n int) { c.gave.Add(int64(n)) }
func (c *counts) Ignored()   { c.ignored.Add(1) }

func (c *counts) Find(id string) (*cache.Store, time.Time) {
	if id != "store" {
		return nil, time.Time{}
	}
	return c.store, c.asOf
}

func (*counts) Holds() []string { return []string{"primary", "other"} }

// bench is a relay that answers and one that asks.
type bench struct {
	counts

	server *Server
	client *Client
	plain  bool // it knows no markers
	silent bool // the handler behind the interceptor says nothing
}

// newBench starts both. The store has clusters of the wildcard, and endpoints by name.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := new(bench)
	b.asOf = time.Now().Add(-time.Hour)
	b.store = filled(t)
	b.server = &Server{
		ID: "peer", Trusted: func(context.Context) bool { return true }, Stores: &b.counts, Observer: &b.counts,
		MessageSize: func() int { return 200 },
	}
	lis := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec()), grpc.StreamInterceptor(b.intercept),
		grpc.UnknownServiceHandler(func(_ any, g grpc.ServerStream) error {
			b.passed.Add(1)
			if b.silent {
				<-g.Context().Done()
			}
			return status.Error(codes.Unavailable, "an ordinary client")
		}))
	served := make(chan error, 1)
	go func() { served <- g.Serve(lis) }()
	b.client = NewClient(ClientConfig{
		ID: "asks", Addresses: []string{"peer.test:1"}, Credentials: insecure.NewCredentials(), UserAgent: "test", Resolver: b,
		Connect: func(ctx context.Context, _, _ string) (net.Conn, error) { return lis.DialContext(ctx) },
	})
	t.Cleanup(func() {
		b.client.Close()
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) intercept(srv any, g grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if b.plain {
		return handler(srv, g)
	}
	if done, err := b.server.Answer(g); done {
		return err
	}
	return handler(srv, g)
}

// LookupNetIP implements Resolver.
func (*bench) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host != "peer.test" {
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
}

// filled is a store with three clusters and two endpoint sets.
func filled(t *testing.T) *cache.Store {
	t.Helper()
	s := cache.New(cache.Limits{}, nil).Open(cache.Source{Quiet: time.Second})
	c := delivery.Join(s, func() {}, delivery.Form{})
	t.Cleanup(c.Leave)
	c.Update(&delivery.Change{TypeURL: cds, Subscribe: []cache.Name{{Spelling: "*", Key: "*"}}})
	c.Update(&delivery.Change{TypeURL: eds, Subscribe: []cache.Name{{Spelling: "e", Key: "e"}, {Spelling: "f", Key: "f"}}})
	s.Session().Restart(wire.StreamID{}, 0)
	for _, r := range []*wire.Response{words.Response(cds, "+a@1", "+b@1", "+c@1"), words.Response(eds, "+e@1", "+f@2")} {
		if err := s.Session().Apply(wire.StreamID{}, r, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	s.Session().Settle(time.Now().Add(time.Minute))
	return s
}

// only is the one peer that may answer.
func (b *bench) only(t *testing.T) *Peer {
	t.Helper()
	all := b.client.Peers(t.Context())
	if len(all) != 1 || all[0].Address != "192.0.2.1:1" {
		t.Fatalf("peers %v", all)
	}
	return all[0]
}

var wants = []cache.PeerWants{
	{TypeURL: cds, Kind: cache.WholeType, Names: []string{"*"}},
	{TypeURL: cds, Kind: cache.ByName, Names: []string{"b", "none"}},
	{TypeURL: eds, Kind: cache.ByName, Names: []string{"e", "g", "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/g/*"}},
}

func names(a cache.PeerAnswer) (all []string) {
	for _, r := range a.Resources {
		all = append(all, r.Name+"@"+r.Version)
	}
	return all
}

func TestAsk_SUR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wanted := b.store.Session().Wanted()
		a, err := b.only(t).Ask(t.Context(), "store", wants)
		if err != nil || !a.Known || !a.AsOf.Equal(b.asOf) || len(a.Parts) != len(wants) {
			t.Fatalf("%+v, %v", a, err)
		}
		for i, want := range []string{"[a@1 b@1 c@1] [*]", "[b@1] []", "[e@1] []"} {
			if got := fmt.Sprint(names(a.Parts[i]), a.Parts[i].Names); got != want {
				t.Errorf("answer %d: %s, want %s", i, got, want)
			}
		}
		if b.gave.Load() != 5 {
			t.Errorf("the peer gave %d resources", b.gave.Load())
		}
		if got := b.store.Session().Wanted(); got != wanted {
			t.Errorf("the peer wants %d names now, and wanted %d", got, wanted)
		}
		a, err = b.only(t).Ask(t.Context(), "another store", wants)
		if err != nil || a.Known || a.Parts != nil {
			t.Errorf("of a store that the peer has not: %+v, %v", a, err)
		}
		holds, err := b.only(t).Look(t.Context())
		if err != nil || !slices.Equal(holds, []string{"primary", "other"}) {
			t.Errorf("holds %q, %v", holds, err)
		}
		if b.passed.Load()+b.ignored.Load() != 0 {
			t.Errorf("%d streams went on, %d were ignored", b.passed.Load(), b.ignored.Load())
		}
	})
}

// A peer that does not answer as one is left alone for a while.
func TestAskInVain_SUR1(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare         func(b *bench)
		want            error
		ignored, passed int64
		pause           time.Duration
	}{
		"itself":           {func(b *bench) { b.server.ID = "asks" }, ErrSelf, 0, 0, afterSelf},
		"not trusted":      {func(b *bench) { b.server.Trusted = func(context.Context) bool { return false } }, ErrRefused, 1, 1, afterRefusal},
		"hangs":            {func(b *bench) { b.server.Stores = new(hanging) }, errSilent, 0, 0, afterFailure},
		"knows no markers": {func(b *bench) { b.plain, b.silent = true, true }, errSilent, 0, 1, afterFailure},
		"ends the stream":  {func(b *bench) { b.plain = true }, errSilent, 0, 1, afterFailure},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				tt.prepare(b)
				p := b.only(t)
				if _, err := p.Ask(t.Context(), "store", wants); !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				synctest.Wait() // the server's side of the stream
				if b.ignored.Load() != tt.ignored || b.passed.Load() != tt.passed {
					t.Errorf("%d markers were ignored, %d streams went on", b.ignored.Load(), b.passed.Load())
				}
				if all := b.client.Peers(t.Context()); len(all) != 0 {
					t.Error("the peer is asked again at once")
				}
				time.Sleep(tt.pause)
				b.only(t)
			})
		})
	}
}

// hanging is a relay that finds stores late.
type hanging struct{ counts }

func (*hanging) Find(string) (*cache.Store, time.Time) {
	time.Sleep(2 * answerWithin)
	return nil, time.Time{}
}

func TestTrusts(t *testing.T) {
	p := keyer.Peer{
		URIs: []string{"spiffe://td/relay"}, DNS: []string{"Relay.example.com"}, Emails: []string{"a@b"}, IPs: []string{"192.0.2.1"}, Subject: "CN=relay",
	}
	for id, want := range map[string]bool{
		"spiffe://td/relay": true, "relay.example.com": true, "a@b": true, "192.0.2.1": true,
		"spiffe://td/relay2": false, "spiffe://td": false, "CN=relay": false, "example.com": false,
	} {
		if got := Trusts([]string{"x", id}, &p); got != want {
			t.Errorf("%q: %t", id, got)
		}
	}
	if Trusts([]string{""}, new(keyer.Peer)) || Trusts(nil, &p) {
		t.Error("somebody without an identity is trusted")
	}
}

// Questions are split such that a relay with the least server.max_receive_size takes them.
func TestSplit(t *testing.T) {
	var w cache.PeerWants
	w.TypeURL = eds
	for i := range 10_000 {
		w.Names = append(w.Names, fmt.Sprintf("some-endpoint-set-%05d", i))
	}
	questions := split([]cache.PeerWants{w, wants[0]})
	n := 0
	for i := range questions {
		n += len(questions[i].Names)
		if size := proto.Size(questions[i].request(i)); size > 64<<10 {
			t.Errorf("question %d has %d bytes", i, size)
		}
	}
	if n != 10_001 || len(questions) < 3 {
		t.Errorf("%d names in %d questions", n, len(questions))
	}
}
