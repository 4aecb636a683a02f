package connections

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/quota"
)

// listener gives the connections of another listener, as its limit lets it.
type listener struct {
	net.Listener

	limit  *Limit
	settle func(net.Conn) // see Listen; nil: there is nothing to wait for

	ready   chan struct{} // one slot: there is something for Accept to look at
	taken   chan struct{} // one slot: Accept has returned an error that is no end
	closed  chan struct{}
	closing sync.Once
	running sync.WaitGroup // take, and connections that settle

	// guarded by Limit.mu
	queue    queue
	settling map[*Conn]struct{}
	looked   time.Time // for connections that waited for too long
	err      error     // of the listener, for Accept
}

// Listen gives a listener whose connections are bounded: its Accept returns a *[Conn]. settle, if it is not
// nil, is called for each connection. It returns when the connection's RemoteAddr is that of the client, or
// the connection has failed or is closed.
//
// Close resets the connections that are not served yet.
func (l *Limit) Listen(lis net.Listener, settle func(net.Conn)) net.Listener {
	w := &listener{
		Listener: lis, limit: l, settle: settle, settling: make(map[*Conn]struct{}),
		ready: notify.New(), taken: notify.New(), closed: make(chan struct{}),
	}
	l.mu.Lock()
	l.wake = append(l.wake, w.ready)
	l.mu.Unlock()
	w.running.Go(w.take)
	return w
}

// Accept implements net.Listener.
func (w *listener) Accept() (net.Conn, error) {
	for {
		c, wait, err := w.serve(time.Now())
		switch {
		case err != nil:
			notify.Signal(w.taken)
			return nil, err
		case c != nil:
			return c, nil
		case wait == 0:
			<-w.ready
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.ready: // the limits may have changed
		}
		timer.Stop()
	}
}

// serve takes out the next connection to serve, or tells how long to wait; 0: until something comes.
func (w *listener) serve(now time.Time) (_ *Conn, wait time.Duration, _ error) {
	l := w.limit
	l.mu.Lock()
	late, held := w.late(now), false
	defer func() {
		l.mu.Unlock()
		for _, c := range late {
			w.refuse(c, TooFast)
		}
		if held {
			l.observer.Waited()
		}
	}()
	if w.queue.size == 0 {
		err := w.err
		if !isEnd(err) {
			w.err = nil
		}
		return nil, 0, err
	}
	if wait = l.mayServe(now); wait > 0 {
		return nil, wait, nil
	}
	c := w.queue.pop()
	held = l.next.After(c.came)
	l.serves(now)
	l.waiting--
	return c, 0, nil
}

// late takes out the connections that waited for too long. The caller holds the limit's lock.
func (w *listener) late(now time.Time) []*Conn {
	if w.queue.size == 0 || now.Sub(w.looked) < time.Second {
		return nil
	}
	w.looked = now
	late := w.queue.before(now.Add(-patience))
	w.limit.waiting -= len(late)
	return late
}

func isEnd(err error) bool { return errors.Is(err, net.ErrClosed) }

// take takes connections from the system until the listener is closed.
func (w *listener) take() {
	for {
		conn, err := w.Listener.Accept()
		if err != nil {
			if w.failed(err) {
				return
			}
			continue
		}
		c := w.limit.newConn(conn)
		if w.settle == nil {
			c.who.Address = quota.AddressAt(conn.RemoteAddr())
		}
		if v := w.limit.come(c); v != quota.Admitted {
			w.refuse(c, reasonOf(v))
			continue
		}
		switch {
		case w.settle == nil:
			w.wait(c)
		case w.settles(c):
			w.running.Go(func() { w.identify(c) })
		default:
			reset(c)
		}
	}
}

// failed has Accept return an error, and waits until it did. It reports whether that is the end.
func (w *listener) failed(err error) (end bool) {
	w.limit.mu.Lock()
	w.err = err
	w.limit.mu.Unlock()
	notify.Signal(w.ready)
	if isEnd(err) {
		return true
	}
	select { // the caller of Accept pauses then
	case <-w.taken:
		return false
	case <-w.closed:
		return true
	}
}

// settles notes a connection whose client is not known yet; false: the listener is closed.
func (w *listener) settles(c *Conn) bool {
	w.limit.mu.Lock()
	defer w.limit.mu.Unlock()
	if w.isClosed() {
		return false
	}
	w.settling[c] = struct{}{}
	return true
}

// identify waits until it is known where a connection's client is.
func (w *listener) identify(c *Conn) {
	w.settle(c.Conn)
	who := quota.Client{Address: quota.AddressAt(c.RemoteAddr())}
	w.limit.mu.Lock()
	delete(w.settling, c)
	w.limit.mu.Unlock()
	if v := w.limit.identify(c, who); v != quota.Admitted {
		w.refuse(c, reasonOf(v))
		return
	}
	w.wait(c)
}

// wait has a connection wait for its turn.
func (w *listener) wait(c *Conn) {
	l := w.limit
	l.mu.Lock()
	if w.isClosed() {
		l.mu.Unlock()
		reset(c)
		return
	}
	w.queue.push(c)
	l.waiting++
	l.mu.Unlock()
	notify.Signal(w.ready)
}

// refuse resets a connection, and tells of it.
func (w *listener) refuse(c *Conn, by Reason) {
	w.limit.observer.Refused(c.RemoteAddr(), by)
	reset(c)
}

// reset closes a connection so that the system keeps nothing of it.
func reset(c *Conn) {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // an error says that it is closed
	}
	_ = c.Close() // likewise
}

func (w *listener) isClosed() bool {
	select {
	case <-w.closed:
		return true
	default:
		return false
	}
}

// Close implements net.Listener.
func (w *listener) Close() error {
	var err error
	w.closing.Do(func() {
		w.limit.mu.Lock()
		close(w.closed)
		left := w.queue.clear()
		w.limit.waiting -= len(left)
		for c := range w.settling {
			left = append(left, c)
		}
		w.err = net.ErrClosed
		w.limit.mu.Unlock()
		err = w.Listener.Close()
		notify.Signal(w.ready)
		for _, c := range left {
			reset(c)
		}
		w.running.Wait()
	})
	return err
}
