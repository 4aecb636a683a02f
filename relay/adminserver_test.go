package relay

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
)

// adminBed is an admin port over memory.
type adminBed struct {
	*testing.T

	lis *bufconn.Listener
	log logtest.Text

	mu   sync.Mutex
	from string // where the next connections come from; "": memory
}

// Accept implements net.Listener.
func (b *adminBed) Accept() (net.Conn, error) {
	c, err := b.lis.Accept()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from == "" {
		return c, nil
	}
	return comesFrom{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(b.from))}, nil
}

// Close and Addr implement net.Listener.
func (b *adminBed) Close() error   { return b.lis.Close() }
func (b *adminBed) Addr() net.Addr { return b.lis.Addr() }

// comesFrom is a connection from an address.
type comesFrom struct {
	net.Conn

	from net.Addr
}

func (c comesFrom) RemoteAddr() net.Addr { return c.from }

// at has the next connections come from an address.
func (b *adminBed) at(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.from = address
}

// adminBubble runs f against a port with pages.
func adminBubble(t *testing.T, pages http.HandlerFunc, f func(b *adminBed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &adminBed{T: t, lis: bufconn.Listen(4 << 10)}
		web := newAdminServer("admin", inTurn(pages), slog.New(slog.NewTextHandler(&b.log, nil)))
		var serving sync.WaitGroup
		serving.Go(func() { _ = web.Serve(b) })
		f(b)
		_ = web.Close()
		serving.Wait()
	})
}

// says connects, and sends.
func (b *adminBed) says(text string) net.Conn {
	b.Helper()
	conn, err := b.lis.DialContext(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
	return conn
}

// endsAfter is when the server closes a connection.
func (b *adminBed) endsAfter(conn net.Conn) time.Duration {
	b.Helper()
	began := time.Now()
	_, _ = io.Copy(io.Discard, conn)
	return time.Since(began)
}

const adminGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// A connection of the admin port is not there for ever: without a request, within one, or after one.
func TestAdminTimes_ACC7_LIM1(t *testing.T) {
	reads := func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(w, "page")
	}
	for name, c := range map[string]struct {
		text string
		want time.Duration
	}{
		"nothing is sent":              {"", adminHeaderTime},
		"the headers do not end":       {"GET / HTTP/1.1\r\nHost: a\r\n", adminHeaderTime},
		"the body does not end":        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1", adminBodyTime},
		"no other request comes later": {adminGet, adminIdleTime},
	} {
		t.Run(name, func(t *testing.T) {
			adminBubble(t, reads, func(b *adminBed) {
				if got := b.endsAfter(b.says(c.text)); got < c.want || got > c.want+time.Second {
					b.Errorf("LIM-1: the connection ends after %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A client that does not read an answer holds it for a bounded time. One that reads slowly gets all of it.
func TestAdminWrites_LIM1(t *testing.T) {
	const size = 1 << 20
	var failed error
	var after time.Duration
	writes := func(w http.ResponseWriter, _ *http.Request) {
		began := time.Now()
		_, failed = w.Write(make([]byte, size))
		after = time.Since(began)
	}
	adminBubble(t, writes, func(b *adminBed) {
		b.says(adminGet)
		<-time.After(time.Hour)
		if failed == nil || after != adminWriteTime {
			b.Errorf("LIM-1: writing ended after %v with %v", after, failed)
		}
	})
	adminBubble(t, writes, func(b *adminBed) {
		conn, got, began := b.says(adminGet), 0, time.Now()
		for buf := make([]byte, 32<<10); got < size; {
			n, err := conn.Read(buf)
			if err != nil {
				b.Fatalf("%d bytes were read, then: %v", got, err)
			}
			got += n
			<-time.After(time.Second)
		}
		if took := time.Since(began); failed != nil || took < 4*adminWriteTime {
			b.Errorf("a slow client had its answer in %v, with %v", took, failed)
		}
	})
}

// An answer on which the relay works for long is not cut off: a profile, or a check of a large cache.
func TestAdminLongAnswers(t *testing.T) {
	const long = 10 * time.Minute
	adminBubble(t, func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-time.After(long):
		case <-req.Context().Done():
			t.Error("the request was cancelled")
		}
		_, _ = io.WriteString(w, "profile")
	}, func(b *adminBed) {
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.lis.DialContext(ctx) }}}
		defer client.CloseIdleConnections()
		for range 2 { // the second one on the same connection
			resp, err := client.Get("http://a/")
			if err != nil {
				b.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != "profile" {
				b.Errorf("%q, %v", body, err)
			}
			_ = resp.Body.Close()
			<-time.After(adminIdleTime / 2)
		}
	})
}

// The admin port has 64 connections. A further one is served, and the one goes that has waited longest.
func TestAdminConnections_LIM1(t *testing.T) {
	var release chan struct{}
	adminBubble(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/check" {
			<-release
		}
		_, _ = io.WriteString(w, "page")
	}, func(b *adminBed) {
		release = make(chan struct{}) // in the bubble
		busy := b.says("GET /check HTTP/1.1\r\nHost: a\r\n\r\n")
		var silent []net.Conn
		for range adminConnections - 1 {
			silent = append(silent, b.says(""))
			<-time.After(time.Millisecond)
		}
		conn := b.says(adminGet)
		if got := b.endsAfter(silent[0]); got != 0 {
			b.Errorf("LIM-1: the one that waited longest ends after %v", got)
		}
		answer := make([]byte, 64)
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200") {
			b.Errorf("a further client gets %q, %v", answer[:n], err)
		}
		close(release)
		if n, err := busy.Read(answer); err != nil || n == 0 {
			b.Errorf("a client with a request lost its connection: %v", err)
		}
		if n := strings.Count(b.log.String(), "as many connections as it may have"); n != 1 {
			b.Errorf("%d lines:\n%s", n, b.log.String())
		}
	})
}

// One address has 16 of the connections. A further one takes the place of one of its own, whoever else is there.
func TestAdminConnections_LIM1_address(t *testing.T) {
	adminBubble(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }, func(b *adminBed) {
		b.at("192.0.2.1:1")
		other := b.says("")
		<-time.After(time.Millisecond)
		var own []net.Conn
		for _, address := range []string{"127.0.0.1:1", "127.9.9.9:1"} { // one address
			b.at(address)
			for range adminOfAddress / 2 {
				own = append(own, b.says(""))
				<-time.After(time.Millisecond)
			}
		}
		conn := b.says(adminGet)
		if got := b.endsAfter(own[0]); got != 0 {
			b.Errorf("LIM-1: the first one of the address ends after %v", got)
		}
		answer := make([]byte, 64)
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200") {
			b.Errorf("a further client gets %q, %v", answer[:n], err)
		}
		if got := b.endsAfter(other); got == 0 {
			b.Error("a connection of another address ended")
		}
	})
}

// Headers of the admin port have a bound.
func TestAdminHeaders_LIM1(t *testing.T) {
	adminBubble(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }, func(b *adminBed) {
		conn := b.says("GET / HTTP/1.1\r\nHost: a\r\nX: ")
		go func() { _, _ = io.WriteString(conn, strings.Repeat("x", 2*adminHeaderBytes)+"\r\n\r\n") }()
		answer := make([]byte, 64)
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 431") {
			b.Errorf("the client gets %q, %v", answer[:n], err)
		}
		_, _ = io.Copy(io.Discard, conn)
	})
}

// One check of the cache goes on at a time.
func TestAdminChecks_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Relay{hub: &hub{}, checking: make(chan struct{}, 1)}
		r.checking <- struct{}{}
		ended := false
		go func() {
			_ = adminState{r}.Check()
			ended = true
		}()
		synctest.Wait()
		if ended {
			t.Error("a second check goes on")
		}
		<-r.checking
		synctest.Wait()
		if !ended {
			t.Error("the second check does not come")
		}
	})
}

// Half of the processors work on pages at a time. Clients that do not read their answers, and probes, are beside that.
func TestAdminTurns_LIM1(t *testing.T) {
	var release chan struct{}
	working := make(chan struct{}, 64)
	adminBubble(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/unread":
			_, _ = w.Write(make([]byte, 1<<20))
			return
		case "/events", "/check", "/debug/pprof/profile":
			<-release
		case "/page":
			working <- struct{}{}
			<-release
			<-working
		}
		_, _ = io.WriteString(w, "page")
	}, func(b *adminBed) {
		release = make(chan struct{}) // in the bubble
		b.says("GET /unread HTTP/1.1\r\nHost: a\r\n\r\n")
		conns := []net.Conn{b.says("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")}
		for _, path := range []string{"/events", "/check", "/debug/pprof/profile"} { // they wait for something, and have no turn
			conns = append(conns, b.says("GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"))
		}
		turns := max(1, runtime.GOMAXPROCS(0)/2)
		for range 3 * turns {
			conns = append(conns, b.says("GET /page HTTP/1.1\r\nHost: a\r\n\r\n"))
		}
		if n := len(working); n != turns {
			b.Errorf("LIM-1: %d pages are worked on, want %d", n, turns)
		}
		close(release)
		for i, conn := range conns {
			answer := make([]byte, 64)
			if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200") {
				b.Errorf("the client %d gets %q, %v", i, answer[:n], err)
			}
		}
	})
}
