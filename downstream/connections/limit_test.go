package connections

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/quota"
)

// system is a listener of the system: what is put into it, Accept returns.
type system struct {
	backlog chan net.Conn
	errs    chan error
	closed  chan struct{}
	once    sync.Once
}

func (s *system) Accept() (net.Conn, error) {
	select {
	case c := <-s.backlog:
		return c, nil
	case err := <-s.errs:
		return nil, err
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *system) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (*system) Addr() net.Addr { return &net.TCPAddr{} }

// end is one end of a connection, with an address.
type end struct {
	net.Conn

	name string
	from net.Addr
}

func (e *end) RemoteAddr() net.Addr { return e.from }

// hall is a limit with listeners, and with what became of connections. It lives in a bubble.
type hall struct {
	*testing.T

	limit *Limit
	ends  []func() // of listeners

	mu      sync.Mutex // guards what follows
	served  []string
	open    []net.Conn
	refused []string
	waits   int
	slowed  int
}

var words = map[Reason]string{TooMany: "too many", Share: "share", TooFast: "too fast"}

func (h *hall) Refused(from net.Addr, by Reason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = append(h.refused, fmt.Sprint(from.(*net.TCPAddr).IP, " ", words[by]))
}

func (h *hall) Waited() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits++
}

func (h *hall) Slowed(net.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slowed++
}

func (h *hall) Flooded(net.Addr) { h.Slowed(nil) }

func inHall(t *testing.T, l Limits, f func(h *hall)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{T: t}
		h.limit = New(l, h)
		f(h)
		for _, end := range h.ends {
			end()
		}
		h.mu.Lock()
		open := h.open
		h.mu.Unlock()
		for _, c := range open {
			_ = c.Close()
		}
		synctest.Wait()
		if present, waiting := h.limit.Count(); present != 0 || waiting != 0 || h.limit.usage.Counting() {
			t.Errorf("at the end there are %d connections, of which %d wait; they are counted: %t", present, waiting, h.limit.usage.Counting())
		}
	})
}

// listen opens a listener. What it accepts is open until the end of the test.
func (h *hall) listen(settle func(net.Conn)) *system {
	s := &system{backlog: make(chan net.Conn, 1<<16), errs: make(chan error), closed: make(chan struct{})}
	lis := h.limit.Listen(s, settle)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := lis.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil:
				h.mu.Lock()
				h.served = append(h.served, err.Error())
				h.mu.Unlock()
				continue
			}
			h.mu.Lock()
			h.served, h.open = append(h.served, c.(*Conn).Conn.(*end).name), append(h.open, c)
			h.mu.Unlock()
		}
	})
	h.ends = append(h.ends, func() {
		_ = lis.Close()
		serving.Wait()
	})
	return s
}

// comes has connections come from an address. It returns the other ends.
func (h *hall) comes(s *system, from string, names ...string) {
	for i, name := range names {
		near, far := net.Pipe()
		h.Cleanup(func() { _ = near.Close() })
		s.backlog <- &end{far, name, &net.TCPAddr{IP: net.ParseIP(from), Port: i + 1}}
		synctest.Wait()
	}
}

// many are so many names.
func many(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}

// wants expects which connections were served since it was last called, and which were refused.
func (h *hall) wants(served string, refused ...string) {
	h.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.served, " "); got != served {
		h.Errorf("%q were served, want %q", got, served)
	}
	if !slices.Equal(h.refused, refused) {
		h.Errorf("%q were refused, want %q", h.refused, refused)
	}
	h.served, h.refused = nil, nil
}

// leave closes the connection that was served last.
func (h *hall) leave() {
	h.mu.Lock()
	last := len(h.open) - 1
	c := h.open[last]
	h.open = h.open[:last]
	h.mu.Unlock()
	_ = c.Close()
	_ = c.Close() // which counts once
}

// All listeners together have as many connections as the limit says, and one address its share.
func TestConnections_LIM1(t *testing.T) {
	inHall(t, Limits{Connections: quota.Limit{Most: 4, Share: 0.5}}, func(h *hall) {
		one, other := h.listen(nil), h.listen(nil)
		h.comes(one, "10.0.0.1", "a")
		h.comes(other, "10.0.0.1", "b", "c", "x")
		h.wants("a b c", "10.0.0.1 share")
		h.comes(one, "10.0.0.2", "d")
		h.comes(other, "10.0.0.3", "f")
		h.wants("d", "10.0.0.3 too many")
		h.leave()
		h.comes(other, "10.0.0.3", "g")
		h.wants("g")
		h.limit.Set(Limits{Connections: quota.Limit{Most: 5, Share: 0.5}})
		h.comes(one, "10.0.0.4", "h", "i")
		h.wants("h", "10.0.0.4 too many")
		h.limit.Set(Limits{})
		h.comes(one, "10.0.0.1", "j", "k")
		h.wants("j k")
		if present, waiting := h.limit.Count(); present != 7 || waiting != 0 {
			h.Errorf("there are %d connections, of which %d wait", present, waiting)
		}
	})
}

// Connections that come too fast wait, and are not refused. A burst does not wait.
func TestRate_LIM1(t *testing.T) {
	inHall(t, Limits{PerSecond: 1}, func(h *hall) {
		s := h.listen(nil)
		h.comes(s, "10.0.0.1", many("a", 11)...)
		h.wants("a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10")
		h.comes(s, "10.0.0.1", "b", "c")
		h.comes(s, "10.0.0.2", "d")
		h.comes(s, "10.0.0.1", "e")
		h.wants("")
		if h.waits != 0 {
			h.Errorf("%d connections of a burst waited", h.waits)
		}
		if present, waiting := h.limit.Count(); present != 15 || waiting != 4 {
			h.Errorf("there are %d connections, of which %d wait", present, waiting)
		}
		<-time.After(time.Second) // addresses take turns, and of one the newest is next
		h.wants("e")
		<-time.After(time.Second)
		h.wants("d")
		<-time.After(time.Second)
		h.wants("c")
		if h.waits != 3 {
			h.Errorf("%d connections waited, want 3", h.waits)
		}
		h.limit.Set(Limits{PerSecond: 2})
		h.comes(s, "10.0.0.3", "f")
		h.wants("b f")
	})
}

// One address that opens connections without end holds up nobody else, on no listener.
func TestRateOfOneAddress_LIM2(t *testing.T) {
	inHall(t, Limits{PerSecond: 100}, func(h *hall) {
		s, other := h.listen(nil), h.listen(nil)
		h.comes(s, "10.0.0.1", many("x", 1500)...)
		synctest.Wait()
		h.served = nil
		h.comes(s, "10.0.0.2", "a")
		h.comes(other, "10.0.0.3", "b")
		<-time.After(300 * time.Millisecond) // whichever listener is the quicker one each time
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			if !slices.Contains(h.served, name) {
				h.Errorf("%s waits behind an attacker: %q were served", name, h.served)
			}
		}
	})
}

// A connection whose client has gone, as far as can be known, is not served any more.
func TestRatePatience_LIM1(t *testing.T) {
	inHall(t, Limits{PerSecond: 1}, func(h *hall) {
		s := h.listen(nil)
		h.comes(s, "10.0.0.1", many("a", 11)...)
		h.comes(s, "10.0.0.1", "old", "older")
		for i := range 25 { // each newer than those
			h.comes(s, "10.0.0.1", fmt.Sprint("b", i))
			<-time.After(time.Second)
		}
		synctest.Wait()
		if !slices.Equal(h.refused, []string{"10.0.0.1 too fast", "10.0.0.1 too fast"}) || slices.Contains(h.served, "old") {
			h.Errorf("%q were refused, %q served", h.refused, h.served)
		}
	})
}

// No default refuses 50,000 Envoys behind one address, and others find room beside them.
func TestFleetOfDefaults_LIM1(t *testing.T) {
	const envoys = 50_000
	c := config.Default().Limits
	l := New(Limits{Connections: quota.Limit{Most: c.Connections, Share: c.Share.Part()}, PerSecond: c.ConnectionsPerSecond}, nil)
	come := func(n int, from string) {
		t.Helper()
		for i := range n {
			one := &Conn{who: quota.Client{Address: netip.PrefixFrom(netip.MustParseAddr(from), 32)}}
			if v := l.come(one); v != quota.Admitted {
				t.Fatalf("the verdict on connection %d from %s is %d", i, from, v)
			}
		}
	}
	come(2*envoys, "10.0.0.1") // the old connections of a fleet that was cut off may still be there
	come(envoys/2, "10.0.0.2")
}

// A client behind a proxy counts for its own address, and only until then for nobody.
func TestSettling_LIM1(t *testing.T) {
	inHall(t, Limits{Connections: quota.Limit{Most: 4, Share: 0.25}}, func(h *hall) {
		known := make(chan net.IP)
		s := h.listen(func(c net.Conn) {
			if ip, ok := <-known; ok {
				c.(*end).from = &net.TCPAddr{IP: ip}
			}
		})
		h.comes(s, "10.0.0.9", "a", "b", "c", "d", "e")
		h.wants("", "10.0.0.9 too many")
		for _, ip := range []string{"10.0.0.1", "10.0.0.1"} {
			known <- net.ParseIP(ip)
		}
		synctest.Wait()
		if len(h.served) != 1 || !slices.Equal(h.refused, []string{"10.0.0.1 share"}) {
			h.Errorf("%q were served, %q refused", h.served, h.refused)
		}
		close(known) // as the closed connections do
	})
}

// An error of the system is its caller's, who pauses, and no end.
func TestErrors_LIM1(t *testing.T) {
	inHall(t, Limits{}, func(h *hall) {
		s := h.listen(nil)
		s.errs <- errors.New("no files")
		h.comes(s, "10.0.0.1", "a")
		s.errs <- errors.New("again")
		h.comes(s, "10.0.0.1", "b")
		synctest.Wait()
		if got := strings.Join(h.served, ", "); got != "no files, a, again, b" {
			h.Errorf("served: %s", got)
		}
	})
}

// Closing a listener resets what waits, and ends what settles.
func TestClose_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hall{T: t}
		h.limit = New(Limits{PerSecond: 1}, h)
		s := &system{backlog: make(chan net.Conn, 100), closed: make(chan struct{})}
		lis := h.limit.Listen(s, nil)
		other := &system{backlog: make(chan net.Conn, 100), closed: make(chan struct{})}
		settling := h.limit.Listen(other, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
		h.comes(s, "10.0.0.1", "a", "b", "c")
		h.comes(other, "10.0.0.1", "d")
		if present, waiting := h.limit.Count(); present != 4 || waiting != 3 {
			t.Errorf("there are %d connections, of which %d wait", present, waiting)
		}
		_, _ = lis.Close(), settling.Close()
		if _, err := lis.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept returns %v", err)
		}
		if present, waiting := h.limit.Count(); present != 0 || waiting != 0 {
			t.Errorf("there are %d connections, of which %d wait", present, waiting)
		}
	})
}
