package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
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
	drips  bool // it sends the same for ever
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
		MessageSize: func() int { return 200 }, MaxBytes: 1 << 20, End: endStream,
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
		ID: "asks", Addresses: []string{"peer.test:1"}, Credentials: insecure.NewCredentials(), UserAgent: "test", Resolver: b, MaxBytes: 1 << 20,
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
	if b.drips {
		return b.drip(g)
	}
	exchange, err := b.server.Answer(g)
	switch {
	case err != nil:
		return err
	case exchange != nil:
		return exchange(g)
	}
	return handler(srv, g)
}

// drip answers with something every second.
func (b *bench) drip(g grpc.ServerStream) error {
	err := g.SendHeader(reply(&Reply{ID: b.server.ID, Known: true}))
	for err == nil {
		select {
		case <-time.After(time.Second):
			err = g.SendMsg(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: cds, Nonce: "0"})
		case <-g.Context().Done():
			err = g.Context().Err()
		}
	}
	return err
}

// endStream ends a stream as downstream.EndStream does.
func endStream(g grpc.ServerStream, err error) {
	t := grpc.ServerTransportStreamFromContext(g.Context()).(interface{ WriteStatus(*status.Status) error })
	_ = t.WriteStatus(status.Convert(err))
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

// An exchange is bounded in bytes on either side, and a peer that goes on for ever is given up: it is left alone.
func TestExchangeIsBounded_SUR1(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(b *bench)
		want    error
		after   time.Duration
	}{
		"bytes at the peer": {func(b *bench) { b.server.MaxBytes = 150 }, ErrTooLarge, 0},
		"bytes of names":    {func(b *bench) { b.server.MaxBytes = 10 }, ErrTooLarge, 0},
		"bytes here":        {func(b *bench) { b.client.cfg.MaxBytes = 150 }, ErrTooLarge, 0},
		"time here":         {func(b *bench) { b.drips, b.server.End = true, func(grpc.ServerStream, error) {} }, errTooLong, exchangeTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				tt.prepare(b)
				p, began := b.only(t), time.Now()
				_, err := p.Ask(t.Context(), "store", wants)
				if status.Code(err) != status.Code(tt.want) || !strings.Contains(err.Error(), status.Convert(tt.want).Message()) {
					t.Errorf("SUR-1: the error is %v, want %v", err, tt.want)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("SUR-1: the exchange took %s, want %s", took, tt.after)
				}
				if all := b.client.Peers(t.Context()); len(all) != 0 {
					t.Error("the peer is asked again at once")
				}
			})
		})
	}
}

// A relay that asks and never comes to an end is cut off by the peer.
func TestExchangeOfAnAskerEnds_SUR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p, began := b.only(t), time.Now()
		ctx := metadata.AppendToOutgoingContext(t.Context(), header, encode(&Marker{From: "asks", Store: "store"}))
		cs, err := p.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		err = cs.RecvMsg(new(wire.Response))
		if status.Code(err) != codes.DeadlineExceeded || time.Since(began) != exchangeTime {
			t.Errorf("SUR-1: %v after %s", err, time.Since(began))
		}
	})
}

// hanging is a relay that finds stores late.
type hanging struct{ counts }

func (*hanging) Find(string) (*cache.Store, time.Time) {
	time.Sleep(2 * answerWithin)
	return nil, time.Time{}
}

func TestTrusts(t *testing.T) {
	relay := []string{"spiffe://td/relay"}
	for name, tt := range map[string]struct {
		peer keyer.Peer
		want bool
	}{
		"its URI":                    {keyer.Peer{URIs: relay, SPIFFE: relay[0]}, true},
		"another URI":                {keyer.Peer{URIs: []string{"spiffe://td/relay2"}}, false},
		"a URI beside it":            {keyer.Peer{URIs: []string{"spiffe://td/relay", "spiffe://td/client"}}, false},
		"a URI before it":            {keyer.Peer{URIs: []string{"spiffe://td/client", "spiffe://td/relay"}}, false},
		"names of other kinds":       {keyer.Peer{DNS: relay, Emails: relay, IPs: relay, Subject: relay[0]}, false},
		"a certificate without URIs": {keyer.Peer{}, false},
	} {
		if got := Trusts([]string{"x", "", "spiffe://td/relay"}, &tt.peer); got != tt.want {
			t.Errorf("ACC-1: %s: %t", name, got)
		}
	}
	if Trusts(nil, &keyer.Peer{URIs: relay}) {
		t.Error("ACC-1: nobody may ask, and somebody does")
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
