package peers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/test/bufconn"
)

const (
	cds    = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	eds    = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	peerID = "spiffe://td/peer"
	askID  = "spiffe://td/asks"
)

// bench is a relay that asks, and its peer, over TLS in memory.
type bench struct {
	*testing.T

	client  *Client
	server  *Server
	handler atomic.Pointer[http.Handler] // in place of server's
	store   *cache.Store
	asOf    time.Time
	dialled atomic.Int64
	gave    []string // what the peer counted
	audited []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, store: filled(t), asOf: time.Now().Add(-time.Minute)}
	ca := pki.NewAuthority(t, "relays")
	b.server = &Server{ID: "answers", Scopes: b, Secrets: true, Audit: b.audit, Observer: b, Log: slog.New(slog.DiscardHandler), Identify: func(shown []*x509.Certificate) (string, error) {
		if who := Identity([]string{askID}, shown[0]); who != "" {
			return who, nil
		}
		return "", errors.New("a stranger")
	}}
	b.answers(b.server)
	lis := bufconn.Listen(1 << 20)
	web := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*b.handler.Load()).ServeHTTP(w, r) }),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{ca.SVID(peerID)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS13},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = web.ServeTLS(lis, "", "")
	}()
	shown := ca.SVID(askID)
	b.client = NewClient(ClientConfig{
		ID: "asks", Addresses: []string{"peer.test:1"}, Identities: []string{peerID}, UserAgent: "test", Resolver: b, MaxBytes: 1 << 20,
		TLS: func() (*tls.Config, error) {
			return &tls.Config{
				Certificates: []tls.Certificate{shown}, InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13,
				VerifyConnection: func(s tls.ConnectionState) error {
					_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: ca.Pool()})
					return err
				},
			}, nil
		},
		Connect: func(ctx context.Context, _, _ string) (net.Conn, error) {
			b.dialled.Add(1)
			return lis.DialContext(ctx)
		},
	})
	t.Cleanup(func() {
		b.client.Close()
		_ = web.Close()
		<-done
	})
	return b
}

// answers has another handler answer.
func (b *bench) answers(h http.Handler) { b.handler.Store(&h) }

// Find implements Scopes.
func (b *bench) Find(id string) (*cache.Store, *snapshot.Header) {
	if id != "scope" {
		return nil, nil
	}
	return b.store, &snapshot.Header{ID: id, Upstream: "primary", Scope: "one", Written: time.Now(), AsOf: b.asOf}
}

// Holds implements Scopes.
func (*bench) Holds() []string { return []string{"primary", "the other"} }

// Asked, Taken and Gave implement Observer.
func (*bench) Asked(Result) {}
func (*bench) Taken(int)    {}
func (b *bench) Gave(identity string, r Result, n int) {
	b.gave = append(b.gave, fmt.Sprint(identity, " ", r, " ", n))
}

func (b *bench) audit(_, identity, scope string, refused error) {
	b.audited = append(b.audited, fmt.Sprint(identity, " ", scope, " ", refused))
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
func (b *bench) only() *Peer {
	b.Helper()
	all := b.client.Peers(b.Context())
	if len(all) != 1 || all[0].Address != "192.0.2.1:1" {
		b.Fatalf("peers %v", all)
	}
	return all[0]
}

// asks has the scope asked for, and gives what was taken: names with versions, and as of when.
func (b *bench) asks(scope, before string) (taken []string, asOf time.Time, tag string, err error) {
	tag, err = b.only().Ask(b.Context(), scope, before, func(i *cache.Image, at time.Time) {
		asOf = at
		for _, t := range i.Tables {
			for _, r := range t.Resources {
				taken = append(taken, r.Resource.Name+"@"+r.Resource.Version)
			}
		}
	})
	slices.Sort(taken)
	return taken, asOf, tag, err
}

func TestAsk_SUR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wanted := b.store.Session().Wanted()
		taken, asOf, tag, err := b.asks("scope", "")
		if got := fmt.Sprint(taken); err != nil || got != "[a@1 b@1 c@1 e@1 f@2]" || !asOf.Equal(b.asOf) || tag == "" {
			t.Fatalf("took %s as of %s, tag %q: %v", got, asOf, tag, err)
		}
		if taken, _, again, err := b.asks("scope", tag); err != nil || taken != nil || again != tag {
			t.Errorf("of an image that did not change: %q, %q: %v", taken, again, err)
		}
		if err := b.store.Session().Apply(wire.StreamID{}, words.Response(eds, "+e@2"), time.Now()); err != nil {
			t.Fatal(err)
		}
		if taken, _, _, err := b.asks("scope", tag); err != nil || !slices.Contains(taken, "e@2") {
			t.Errorf("of an image that changed: %q: %v", taken, err)
		}
		if taken, _, _, err := b.asks("another", ""); err != nil || taken != nil {
			t.Errorf("of a scope that the peer does not have: %q: %v", taken, err)
		}
		b.asOf = time.Now().Add(time.Hour)
		if _, asOf, _, err := b.asks("scope", ""); err != nil || asOf.After(time.Now()) {
			t.Errorf("what is current in the future is as of %s: %v", asOf, err)
		}
		holds, err := b.only().Look(t.Context())
		if err != nil || !slices.Equal(holds, []string{"primary", "the other"}) {
			t.Errorf("holds %q, %v", holds, err)
		}
		if got := b.store.Session().Wanted(); got != wanted {
			t.Errorf("the peer wants %d names now, and wanted %d", got, wanted)
		}
		want := []string{askID + " content 5", askID + " nothing 0", askID + " content 5", askID + " nothing 0", askID + " content 5"}
		if !slices.Equal(b.gave, want) {
			t.Errorf("the peer counted %q", b.gave)
		}
		if line := askID + " one <nil>"; !slices.Equal(b.audited, []string{line, line, line}) {
			t.Errorf("audited are %q", b.audited)
		}
		if n := b.dialled.Load(); n != 1 {
			t.Errorf("%d connections for one peer", n)
		}
	})
}

// writes has an answer written with do, which says when there is no more.
func writes(do func(w http.ResponseWriter, r *http.Request) (more bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil && do(w, r) {
			_ = http.NewResponseController(w).Flush()
		}
	})
}

// imageOf is the peer's image as bytes, of a scope.
func (b *bench) imageOf(scope string) []byte {
	b.Helper()
	var data bytes.Buffer
	if _, err := snapshot.Lend(&data, &snapshot.Header{ID: scope}, b.store.Snapshots().Image(func(string) bool { return false }), true); err != nil {
		b.Fatal(err)
	}
	return data.Bytes()
}

// A peer that gives nothing of use takes a bounded time and bounded bytes, nothing of it is taken, and it is left alone
// for a while.
func TestAskInVain_SUR1(t *testing.T) {
	corrupt := new(*snapshot.CorruptError)
	for name, tt := range map[string]struct {
		prepare func(b *bench)
		want    error // or
		as      any
		took    time.Duration
		pause   time.Duration
	}{
		"itself": {prepare: func(b *bench) { b.server.ID = "asks" }, want: ErrSelf, pause: afterSelf},
		"refused": {prepare: func(b *bench) {
			b.server.Identify = func([]*x509.Certificate) (string, error) { return "", errors.New("no") }
		}, want: ErrRefused, pause: afterRefusal},
		"a stranger": {prepare: func(b *bench) { b.client.cfg.Identities = []string{"spiffe://td/other"} }, want: errStranger, pause: afterFailure},
		"mute": {prepare: func(b *bench) {
			b.answers(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		}, want: errSilent, took: answerWithin, pause: afterFailure},
		"silent in the middle": {prepare: func(b *bench) {
			b.answers(writes(func(w http.ResponseWriter, r *http.Request) bool {
				_, _ = w.Write(b.imageOf("scope")[:40])
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return false
			}))
		}, want: errSilent, took: answerWithin, pause: afterFailure},
		"drips for ever": {prepare: func(b *bench) {
			start := append(b.imageOf("scope")[:12], 255, 255, 255, 0) // a record of 16 MB
			b.answers(writes(func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write(start)
				start = []byte{0}
				time.Sleep(time.Second)
				return true
			}))
		}, want: errTooLong, took: exchangeTime, pause: afterFailure},
		"sends without end": {prepare: func(b *bench) {
			start := append(b.imageOf("scope")[:12], 255, 255, 255, 63) // a record of 1 GiB
			b.answers(writes(func(w http.ResponseWriter, _ *http.Request) bool {
				_, err := w.Write(start)
				start = make([]byte, 1<<16)
				return err == nil
			}))
		}, want: ErrTooLarge, pause: afterRefusal},
		"larger than max_bytes": {prepare: func(b *bench) { b.client.cfg.MaxBytes = 150 }, want: ErrTooLarge, pause: afterRefusal},
		"garbage": {prepare: func(b *bench) {
			b.answers(writes(func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = io.WriteString(w, strings.Repeat("garbage", 100))
				return false
			}))
		}, as: corrupt, pause: afterFailure},
		"cut off": {prepare: func(b *bench) {
			b.answers(writes(func(w http.ResponseWriter, _ *http.Request) bool {
				data := b.imageOf("scope")
				_, _ = w.Write(data[:len(data)-1])
				return false
			}))
		}, as: corrupt, pause: afterFailure},
		"another scope": {prepare: func(b *bench) {
			b.answers(writes(func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write(b.imageOf("other"))
				return false
			}))
		}, want: errOther, pause: afterFailure},
		"broken": {prepare: func(b *bench) {
			b.answers(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		}, want: errStatus, pause: afterFailure},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				tt.prepare(b)
				began := time.Now()
				taken, _, _, err := b.asks("scope", "")
				if err == nil || taken != nil || tt.want != nil && !errors.Is(err, tt.want) || tt.as != nil && !errors.As(err, tt.as) {
					t.Errorf("SUR-1: took %q, error %v, want %v", taken, err, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("SUR-1: it took %s, want %s", took, tt.took)
				}
				if all := b.client.Peers(t.Context()); len(all) != 0 {
					t.Error("the peer is asked again at once")
				}
				time.Sleep(tt.pause)
				b.only()
			})
		})
	}
}

// Of large images one is read at a time: several scopes take no more memory than peers.max_bytes, and small parts.
func TestLargeImagesAreReadAlone_SUR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.client.cfg.MaxBytes = 1 << 20
		goOn, began := make(chan struct{}), make(chan string, 2)
		b.answers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			scope := r.URL.Query().Get(scopeParameter)
			_, _ = w.Write(append(b.imageOf(scope)[:12], 255, 255, 255, 0))
			_, _ = w.Write(make([]byte, 1<<17))
			_ = http.NewResponseController(w).Flush()
			began <- scope
			<-goOn
			_, _ = w.Write(make([]byte, 1<<20))
		}))
		p := b.only()
		var ends []error
		done := make(chan error, 2)
		for _, scope := range []string{"one", "two"} {
			go func() {
				_, err := p.Ask(t.Context(), scope, "", func(*cache.Image, time.Time) { t.Error("something was taken") })
				done <- err
			}()
		}
		<-began
		<-began
		synctest.Wait()
		if n := len(b.client.large); n != 1 {
			t.Errorf("SUR-1: %d large images are read at a time", n)
		}
		close(goOn)
		for range 2 {
			ends = append(ends, <-done)
		}
		for _, err := range ends {
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("SUR-1: an image ended with %v", err)
			}
		}
		if n := len(b.client.large); n != 0 {
			t.Errorf("SUR-1: %d large images are being read, and all have ended", n)
		}
	})
}

// A peer that sends each connection away before it has a request is not dialled without pause.
func TestPeerThatSendsAway_OPS2_SUR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		connect := b.client.cfg.Connect
		b.client.cfg.Connect = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := connect(ctx, network, address)
			if err == nil {
				_ = conn.Close()
			}
			return conn, err
		}
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
			for _, p := range b.client.Peers(t.Context()) {
				if _, err := p.Look(t.Context()); err == nil {
					t.Fatal("a peer that sends away answers")
				}
			}
		}
		if n := b.dialled.Load(); n < 2 || n > 13 {
			t.Errorf("OPS-2: %d connections in a minute", n)
		}
	})
}

func TestIdentity_ACC1(t *testing.T) {
	const relay, dns = "spiffe://td/relay", "relay.example.com"
	identities := []string{"x", "", relay, dns}
	uri := func(all ...string) (uris []*url.URL) {
		for _, text := range all {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			uris = append(uris, u)
		}
		return uris
	}
	for name, tt := range map[string]struct {
		cert x509.Certificate
		want string
	}{
		"its URI":                     {x509.Certificate{URIs: uri(relay)}, relay},
		"another URI":                 {x509.Certificate{URIs: uri(relay + "2")}, ""},
		"a URI beside it":             {x509.Certificate{URIs: uri(relay, "spiffe://td/client")}, ""},
		"a URI before it":             {x509.Certificate{URIs: uri("spiffe://td/client", relay)}, ""},
		"its DNS name":                {x509.Certificate{DNSNames: []string{"other", dns}}, dns},
		"a DNS name beside a URI":     {x509.Certificate{DNSNames: []string{dns}, URIs: uri("spiffe://td/client")}, ""},
		"names of other kinds":        {x509.Certificate{EmailAddresses: []string{dns}}, ""},
		"a certificate without names": {x509.Certificate{}, ""},
	} {
		if got := Identity(identities, &tt.cert); got != tt.want {
			t.Errorf("ACC-1: %s: %q", name, got)
		}
	}
	if Identity(nil, &x509.Certificate{DNSNames: []string{dns}}) != "" {
		t.Error("ACC-1: nobody may ask, and somebody does")
	}
}

// Only the one path is there, and only to be read.
func TestOtherRequests_ACC1(t *testing.T) {
	for request, want := range map[string]int{"GET /": 404, "GET /config": 404, "POST /image": 405, "GET /image": 403} {
		method, at, _ := strings.Cut(request, " ")
		w := &answer{header: make(http.Header)}
		r, err := http.NewRequestWithContext(t.Context(), method, "https://peer.test"+at, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		b := new(bench)
		(&Server{Identify: func([]*x509.Certificate) (string, error) { return "", errors.New("it shows no certificate") }, Observer: b, Audit: b.audit, Log: slog.New(slog.DiscardHandler)}).ServeHTTP(w, r)
		if w.code != want {
			t.Errorf("%s is answered %d, want %d", request, w.code, want)
		}
		if refused := slices.Equal(b.gave, []string{" refused 0"}); refused != (want == 403) {
			t.Errorf("%s is counted as %q", request, b.gave)
		}
	}
}

// answer is what a handler answers.
type answer struct {
	header http.Header
	code   int
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// Write implements http.ResponseWriter.
func (*answer) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = code }
