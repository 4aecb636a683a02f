package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	grpccredentials "google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// verified is the state of a connection whose client showed a certificate of ca.
func verified(t testing.TB, ca *pki.Authority, options ...pki.Option) *tls.ConnectionState {
	t.Helper()
	leaf := ca.Client("client", options...).Leaf
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		t.Fatal(err)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: chains}
}

func TestJudge_ACC1(t *testing.T) {
	ca, other := pki.NewAuthority(t, "ca"), pki.NewAuthority(t, "other")
	pool := ca.Pool()
	pool.AddCert(verified(t, other).VerifiedChains[0][1])
	both, first, second := credentials.RootsOf(pool), credentials.RootsOf(ca.Pool()), credentials.RootsOf(other.Pool())
	shown, nothing := verified(t, ca, pki.Lifetime(10*time.Minute)), new(tls.ConnectionState)
	now := time.Now()
	for _, tt := range []struct {
		name  string
		state *tls.ConnectionState
		roots *credentials.Roots
		at    time.Time
		want  Reason // "": it counts
	}{
		{"the same roots", shown, first, now, ""},
		{"the same roots and others", shown, both, now, ""},
		{"other roots", shown, second, now, Untrusted},
		{"no certificates are verified any more", shown, nil, now, Untrusted},
		{"expired", shown, first, now.Add(11 * time.Minute), Expired},
		{"expired, by other roots too", shown, both, now.Add(11 * time.Minute), Expired},
		{"it is not known yet who counts", shown, credentials.UnknownRoots(), now, ""},
		{"expired before that is known", shown, credentials.UnknownRoots(), now.Add(11 * time.Minute), Expired},
		{"no certificate where none is asked for", nothing, nil, now, ""},
		{"no certificate where one is asked for now", nothing, first, now, Missing},
	} {
		before := verdict{roots: first, until: until(tt.state.VerifiedChains)}
		_, err := judge(tt.state, before, tt.roots, tt.at)
		got := Reason("")
		if ended, ok := errors.AsType[*Error](err); ok {
			got = ended.Reason
		}
		if got != tt.want {
			t.Errorf("ACC-1: %s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A chain ends with the first of its certificates, and the last chain counts.
func TestUntil_ACC1(t *testing.T) {
	at := func(d int) *x509.Certificate { return &x509.Certificate{NotAfter: time.Unix(int64(d), 0)} }
	got := until([][]*x509.Certificate{{at(9), at(2)}, {at(9), at(5), at(7)}, {at(4), at(9)}})
	if want := time.Unix(5, 0); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// side is a client's connection to a watched server.
type side struct {
	conn   net.Conn // the client's
	server net.Conn
	info   grpccredentials.AuthInfo
}

// connect has a client shake hands.
func connect(t *testing.T, creds grpccredentials.TransportCredentials, client *tls.Config) side {
	t.Helper()
	ours, theirs := net.Pipe()
	conn := tls.Client(theirs, client)
	done := make(chan error, 1)
	go func() { done <- conn.HandshakeContext(context.Background()) }()
	server, info, err := creds.ServerHandshake(ours)
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	go func() { // the server's messages after its handshake
		var b [1]byte
		_, _ = conn.Read(b[:])
	}()
	t.Cleanup(func() { _, _ = conn.NetConn().Close(), server.Close() })
	return side{conn, server, info}
}

// Within each period every connection is looked at, and one whose identity has ended is told once,
// and closed after its streams were. One that was closed is not looked at.
func TestWatch_ACC1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const recheck = 5 * time.Minute
		ca := pki.NewAuthority(t, "ca")
		config := &tls.Config{
			Certificates: []tls.Certificate{ca.Server("relay")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
			MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		}
		var roots atomic.Pointer[credentials.Roots]
		roots.Store(credentials.RootsOf(ca.Pool()))
		type end struct {
			at     time.Duration
			reason Reason
		}
		var mu sync.Mutex
		ends, began := make(map[*Conn][]end), time.Now()
		w := NewWatch(roots.Load, recheck, func(ended map[*Conn]*Error) {
			mu.Lock()
			defer mu.Unlock()
			for c, err := range ended {
				ends[c] = append(ends[c], end{time.Since(began), err.Reason})
			}
		})
		creds := w.Guard(grpccredentials.NewTLS(config)).Clone()
		dial := func(lifetime time.Duration) side {
			t.Helper()
			return connect(t, creds, &tls.Config{
				RootCAs: ca.Pool(), ServerName: "relay", MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
				Certificates: []tls.Certificate{ca.Client("client", pki.Lifetime(lifetime))},
			})
		}
		var short []*Conn
		for range 2*parts + 1 {
			short = append(short, dial(time.Minute).info.(*Conn))
		}
		long, gone := dial(30*time.Minute), dial(time.Minute)
		_ = gone.server.Close()
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { w.Run(ctx) })

		<-time.After(2 * recheck)
		synctest.Wait()
		first, last := 2*recheck, time.Duration(0)
		for _, c := range short {
			if len(ends[c]) != 1 || ends[c][0].reason != Expired {
				t.Fatalf("ACC-1: an expired certificate: %v", ends[c])
			}
			first, last = min(first, ends[c][0].at), max(last, ends[c][0].at)
		}
		if first < time.Minute || last > time.Minute+recheck || last-first < recheck/2 {
			t.Errorf("ACC-1: the connections ended after %v to %v", first, last)
		}
		if len(ends) != len(short) {
			t.Errorf("ACC-1: %d connections ended, want %d", len(ends), len(short))
		}
		// The roots change, and the period: it counts at once.
		w.SetRecheck(16 * time.Second)
		roots.Store(credentials.RootsOf(pki.NewAuthority(t, "other").Pool()))
		<-time.After(17 * time.Second)
		synctest.Wait()
		c := long.info.(*Conn)
		if len(ends[c]) != 1 || ends[c][0].reason != Untrusted {
			t.Errorf("ACC-1: a CA that was taken out: %v", ends[c])
		}
		<-time.After(grace)
		synctest.Wait()
		if _, err := long.server.Write([]byte("x")); err == nil {
			t.Error("ACC-1: the connection is open")
		}
		if left := len(w.conns); left != 0 {
			t.Errorf("%d connections are known", left)
		}
		stop()
		wg.Wait()
	})
}

func TestWatchHandshakeFails_ACC1(t *testing.T) {
	w := NewWatch(func() *credentials.Roots { return nil }, time.Minute, nil)
	ours, theirs := net.Pipe()
	_ = theirs.Close()
	ca := pki.NewAuthority(t, "ca")
	creds := w.Guard(grpccredentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{ca.Server("relay")}, MinVersion: tls.VersionTLS13}))
	if _, info, err := creds.ServerHandshake(ours); err == nil || info != nil {
		t.Errorf("%v, %v", info, err)
	}
	if len(w.conns) != 0 {
		t.Error("a connection is known that never was")
	}
	if Of(t.Context()) != nil {
		t.Error("a context without a stream has a connection")
	}
	if _, err := (&watched{Conn: ours}).SyscallConn(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	var _ syscall.Conn = new(watched)
}

// BenchmarkJudge measures what a connection costs in each period.
func BenchmarkJudge(b *testing.B) {
	ca := pki.NewAuthority(b, "ca")
	state, now := verified(b, ca), time.Now()
	for name, roots := range map[string]*credentials.Roots{"same roots": credentials.RootsOf(ca.Pool()), "other roots": func() *credentials.Roots {
		pool := ca.Pool()
		pool.AddCert(verified(b, pki.NewAuthority(b, "other")).VerifiedChains[0][1])
		return credentials.RootsOf(pool)
	}()} {
		b.Run(name, func(b *testing.B) {
			before := verdict{credentials.RootsOf(ca.Pool()), until(state.VerifiedChains)}
			for b.Loop() {
				if _, err := judge(state, before, roots, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
