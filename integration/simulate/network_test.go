package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// network connects hosts. What is written arrives in order, after a time that the seed,
// the connection and the place in it decide: whoever waits for one thing does not change
// when another comes. It can be cut in either direction, be slow, and lose hosts.
type network struct {
	seed uint64

	mu        sync.Mutex
	listeners map[string]*listener
	cut       map[route]int           // how many operations hold what goes this way
	slow      map[route]time.Duration // beside the usual time
	conns     map[*end]struct{}       // that are open, on either side
	dials     map[route]int           // so far
	changed   chan struct{}           // closed and replaced when something was mended
	closed    bool
}

// route is a way from host to host.
type route struct{ from, to string }

const (
	usualDelay = 200 * time.Microsecond
	window     = 64 << 10 // what may be under way in one direction of a connection
	segment    = 1400     // bytes that arrive at once
)

func newNetwork(seed uint64) *network {
	return &network{
		seed: seed, listeners: make(map[string]*listener), cut: make(map[route]int), slow: make(map[route]time.Duration),
		conns: make(map[*end]struct{}), dials: make(map[route]int), changed: make(chan struct{}),
	}
}

// chance is a number that depends on the seed and on what it is for.
func chance(seed uint64, what ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, seed, what) // a hash cannot fail
	x := h.Sum64()                   // whose low bits are not mixed well
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// delayLocked is how long the nth segment of a connection takes.
func (n *network) delayLocked(r route, id, nth int) time.Duration {
	jitter := time.Duration(chance(n.seed, r.from, r.to, id, nth) % uint64(usualDelay))
	return usualDelay + jitter + n.slow[r]
}

// listen opens a port of a host.
func (n *network) listen(host, port string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{network: n, addr: address(net.JoinHostPort(host, port)), accept: make(chan *end, 1024), done: make(chan struct{})}
	n.listeners[string(l.addr)] = l
	return l
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	errPipe    = &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
)

// dialer gives what connects a host to others.
func (n *network) dialer(from string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, to string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(to)
		if err != nil {
			return nil, err
		}
		there := route{from, host}
		n.mu.Lock()
		n.dials[there]++
		id := n.dials[there]
		for n.cut[there] > 0 || n.cut[route{host, from}] > 0 {
			changed := n.changed
			n.mu.Unlock()
			if err := wait(ctx, changed, time.Hour); err != nil {
				return nil, err
			}
			n.mu.Lock()
		}
		delay := n.delayLocked(there, id, -1) + n.delayLocked(route{host, from}, id, -1)
		n.mu.Unlock()
		if err := wait(ctx, nil, delay); err != nil {
			return nil, err
		}
		return n.connect(there, to, id)
	}
}

func wait(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-t.C:
	}
	return nil
}

func (n *network) connect(r route, to string, id int) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[to]
	if l == nil || n.closed {
		return nil, errRefused
	}
	a, b := newEnds(n, r, id, address(fmt.Sprintf("%s:%d", r.from, 10000+id)), l.addr)
	n.conns[a], n.conns[b] = struct{}{}, struct{}{}
	l.accept <- b
	return a, nil
}

// sever holds what goes from one host to another, until mend. What was written arrives
// then, and connections that are new wait so long.
func (n *network) sever(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[route{from, to}]++
}

// mend ends one sever.
func (n *network) mend(from, to string) {
	n.mu.Lock()
	r := route{from, to}
	if n.cut[r] > 0 {
		n.cut[r]--
	}
	reached := n.endsLocked(func(e *end) bool { return e.route == route{to, from} && n.cut[r] == 0 })
	close(n.changed)
	n.changed = make(chan struct{})
	n.mu.Unlock()
	for _, e := range reached {
		e.pump() // also if its peer has closed since
	}
	for _, e := range reached {
		e.mu.Lock()
		lost := e.peer.vanished
		e.mu.Unlock()
		if lost { // its host answers with a reset now
			e.torn()
		}
	}
}

// drag makes the way from one host to another slow; zero makes it fast again.
func (n *network) drag(from, to string, by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[route{from, to}] = by
}

func (n *network) endsLocked(of func(*end) bool) []*end {
	var all []*end
	for e := range n.conns {
		if of(e) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *end) int {
		return cmp.Or(strings.Compare(a.route.from, b.route.from), strings.Compare(a.route.to, b.route.to), cmp.Compare(a.id, b.id),
			strings.Compare(string(a.local), string(b.local)))
	})
	return all
}

// crash ends all that a host had, as a process that is killed does: its ports are closed,
// what it wrote last arrives in part, and then its connections are reset. Where the way to
// the other side is cut that side learns nothing.
func (n *network) crash(host string) {
	n.mu.Lock()
	for addr, l := range n.listeners {
		if h, _, _ := net.SplitHostPort(addr); h == host {
			delete(n.listeners, addr)
			l.end()
		}
	}
	mine := n.endsLocked(func(e *end) bool { return e.route.from == host })
	n.mu.Unlock()
	for _, e := range mine {
		e.vanish()
		e.peer.torn()
	}
}

// reset ends the connections between two hosts, while both go on.
func (n *network) reset(a, b string) {
	n.mu.Lock()
	some := n.endsLocked(func(e *end) bool { return e.route == route{a, b} || e.route == route{b, a} })
	n.mu.Unlock()
	for _, e := range some {
		e.torn()
	}
}

// underway is the most that is under way in one direction of a connection, in bytes.
func (n *network) underway() int {
	n.mu.Lock()
	all := n.endsLocked(func(*end) bool { return true })
	n.mu.Unlock()
	most := 0
	for _, e := range all {
		e.mu.Lock()
		most = max(most, e.pending())
		e.mu.Unlock()
	}
	return most
}

// close ends everything.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	close(n.changed)
	n.changed = make(chan struct{})
	for addr, l := range n.listeners {
		delete(n.listeners, addr)
		l.end()
	}
	all := n.endsLocked(func(*end) bool { return true })
	n.mu.Unlock()
	for _, e := range all {
		e.vanish()
	}
}

// address is a host and port.
type address string

// Network implements net.Addr.
func (address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

// listener implements net.Listener.
type listener struct {
	network *network
	addr    address
	accept  chan *end
	done    chan struct{}
	once    sync.Once
}

func (l *listener) end() { l.once.Do(func() { close(l.done) }) }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case e := <-l.accept:
		return e, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.network.mu.Lock()
	if l.network.listeners[string(l.addr)] == l {
		delete(l.network.listeners, string(l.addr))
	}
	l.network.mu.Unlock()
	l.end()
	for {
		select {
		case e := <-l.accept: // nobody will
			_ = e.Close() // never fails
		default:
			return nil
		}
	}
}

func (l *listener) Addr() net.Addr { return l.addr }

// end is one end of a connection. It implements net.Conn. What its peer writes is in its
// queue until it arrives.
type end struct {
	network       *network
	route         route // of what it writes
	id            int
	local, remote address
	peer          *end

	*wire

	// guarded by wire.mu
	queue    []parcel // under way to here
	queued   int      // bytes
	ready    []byte   // here
	eof      bool     // the peer closed, and all has arrived
	err      error    // the connection was reset
	sent     int      // segments to here so far
	last     time.Time
	pumping  *time.Timer
	readBy   deadline
	writeBy  deadline
	shut     bool // by its owner
	vanished bool // its host is gone
}

// wire is what both ends share.
type wire struct {
	mu   sync.Mutex
	cond *sync.Cond
}

// parcel is a segment that is under way.
type parcel struct {
	at   time.Time
	data []byte // nil: the end
}

// deadline is until when somebody waits.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// set changes the deadline of who waits on a wire. The caller holds its mu.
func (d *deadline) set(t time.Time, w *wire) {
	d.stop()
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.cond.Broadcast()
		})
	}
	w.cond.Broadcast()
}

// newEnds makes a connection.
func newEnds(n *network, r route, id int, local, remote address) (a, b *end) {
	w := new(wire)
	w.cond = sync.NewCond(&w.mu)
	a = &end{network: n, route: r, id: id, local: local, remote: remote, wire: w}
	b = &end{network: n, route: route{r.to, r.from}, id: id, local: remote, remote: local, wire: w}
	a.peer, b.peer = b, a
	return a, b
}

// pending is what is on its way to here or waits to be read.
func (e *end) pending() int { return e.queued + len(e.ready) }

// Write implements net.Conn: it puts segments into the peer's queue while there is room. It fails no sooner than Read, as
// with any socket: that the peer has closed is known here when it arrives. Where only writes fail gRPC spins, see
// playSome.
func (e *end) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, done := e.peer, 0
	for {
		switch {
		case e.shut:
			return done, net.ErrClosed
		case e.err != nil || e.eof:
			return done, errPipe
		case e.writeBy.passed():
			return done, os.ErrDeadlineExceeded
		case done == len(b):
			return done, nil
		case p.shut && !p.vanished:
			return len(b), nil // it goes nowhere
		case p.pending() >= window:
			e.cond.Wait()
			continue
		}
		size := min(len(b)-done, segment)
		p.putLocked(append([]byte(nil), b[done:done+size]...))
		done += size
	}
}

// putLocked has a segment come to here in its time.
func (e *end) putLocked(data []byte) {
	n, r := e.network, e.peer.route
	n.mu.Lock()
	at := time.Now().Add(n.delayLocked(r, e.id, e.sent))
	n.mu.Unlock()
	if at.Before(e.last) {
		at = e.last
	}
	e.last, e.sent = at, e.sent+1
	e.queue = append(e.queue, parcel{at, data})
	e.queued += len(data)
	if len(e.queue) == 1 && !e.vanished {
		e.pumpLocked()
	}
}

// pump takes in what has arrived.
func (e *end) pump() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pumpLocked()
}

func (e *end) pumpLocked() {
	n := e.network
	n.mu.Lock()
	held := n.cut[e.peer.route] > 0
	n.mu.Unlock()
	if held || e.shut {
		return
	}
	now := time.Now()
	for len(e.queue) > 0 && !e.queue[0].at.After(now) {
		p := e.queue[0]
		e.queue = e.queue[1:]
		e.queued -= len(p.data)
		e.eof = e.eof || p.data == nil
		e.ready = append(e.ready, p.data...)
		e.cond.Broadcast()
	}
	if e.pumping != nil {
		e.pumping.Stop()
		e.pumping = nil
	}
	if len(e.queue) > 0 {
		e.pumping = time.AfterFunc(e.queue[0].at.Sub(now), e.pump)
	}
}

// Read implements net.Conn.
func (e *end) Read(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		switch {
		case e.shut:
			return 0, net.ErrClosed
		case e.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(e.ready) > 0:
			k := copy(b, e.ready)
			if e.ready = e.ready[k:]; len(e.ready) == 0 {
				e.ready = nil
			}
			e.cond.Broadcast() // there is room
			return k, nil
		case e.err != nil:
			return 0, e.err
		case e.eof:
			return 0, io.EOF
		}
		e.cond.Wait()
	}
}

// Close implements net.Conn. What was written still arrives, and then the end.
func (e *end) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.shut {
		e.finishLocked()
		if p := e.peer; !p.shut && p.err == nil {
			p.putLocked(nil)
		}
	}
	return nil
}

// vanish closes without a word to the peer.
func (e *end) vanish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.shut {
		e.vanished = true
		e.finishLocked()
	}
}

func (e *end) finishLocked() {
	e.shut = true
	e.queue, e.queued, e.ready = nil, 0, nil
	if e.pumping != nil {
		e.pumping.Stop()
	}
	e.readBy.stop()
	e.writeBy.stop()
	e.cond.Broadcast()
	e.network.mu.Lock()
	delete(e.network.conns, e)
	e.network.mu.Unlock()
}

// torn resets the connection as the host on the other side does that has gone: a part of
// what is under way arrives, and half of one segment. Nothing arrives where the way is
// cut: then the keep-alive finds out.
func (e *end) torn() {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.network
	n.mu.Lock()
	held := n.cut[e.peer.route] > 0
	n.mu.Unlock()
	if e.shut || held || e.err != nil {
		return
	}
	if k := len(e.queue); k > 0 {
		whole := int(chance(n.seed, e.route, e.id, "torn", e.sent) % uint64(k))
		for _, p := range e.queue[:whole] {
			e.ready = append(e.ready, p.data...)
		}
		half := e.queue[whole].data
		e.ready = append(e.ready, half[:len(half)/2]...)
	}
	e.queue, e.queued, e.err = nil, 0, errReset
	if e.pumping != nil {
		e.pumping.Stop()
	}
	e.cond.Broadcast()
}

// LocalAddr implements net.Conn.
func (e *end) LocalAddr() net.Addr { return e.local }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return e.remote }

// SetDeadline implements net.Conn.
func (e *end) SetDeadline(t time.Time) error {
	return errors.Join(e.SetReadDeadline(t), e.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (e *end) SetReadDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readBy.set(t, e.wire)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (e *end) SetWriteDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writeBy.set(t, e.wire)
	return nil
}
