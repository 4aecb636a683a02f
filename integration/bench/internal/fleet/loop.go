//go:build linux

package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

const (
	bufferSize = 256 << 10
	eventBatch = 256
	// maxOpening is how many connections of a loop may wait for their first answer: a
	// queue of connections that overflows costs those in it a second.
	maxOpening = 1024
)

// loop is one thread with the clients that it serves.
type loop struct {
	// immutable
	fleet *Fleet
	epoll int
	wake  int // an eventfd

	mu    sync.Mutex
	tasks []func() // guarded by mu

	// owned by the loop's goroutine
	conns    map[int]*conn // by socket
	clients  []*client
	dialling []*conn
	opening  int // connections that have received nothing
	buffer   []byte
	now      int64    // when the data at hand was read
	target   []uint32 // what clients should hold, by number in the catalogue
	waiting  int      // clients that do not hold what they should, and read
	waiter   chan error
	err      error // the first
	stopped  bool

	counts    Counts
	schedule  *Schedule
	staleness report.Histogram
}

func newLoop(f *Fleet) (*loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), unix.Close(epoll))
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &event); err != nil {
		return nil, errors.Join(fmt.Errorf("epoll: %w", err), unix.Close(epoll), unix.Close(wake))
	}
	l := &loop{
		fleet: f, epoll: epoll, wake: wake, buffer: make([]byte, bufferSize),
		conns: make(map[int]*conn), target: make([]uint32, f.catalogue.Len()),
	}
	for i := range l.target {
		l.target[i] = 1
	}
	return l, nil
}

// run serves until the loop is stopped, and closes everything.
func (l *loop) run() {
	runtime.LockOSThread() // it blocks in the kernel nearly always
	defer runtime.UnlockOSThread()
	var events [eventBatch]unix.EpollEvent
	for !l.stopped {
		timeout := -1
		if len(l.dialling) > 0 && l.opening < maxOpening {
			timeout = 0
		}
		n, err := unix.EpollWait(l.epoll, events[:], timeout)
		if err != nil && !errors.Is(err, unix.EINTR) {
			l.fail(fmt.Errorf("epoll: %w", err))
			break
		}
		for i := range max(0, n) {
			l.event(&events[i])
		}
		l.dial()
	}
	for _, c := range l.conns {
		c.close()
	}
	_ = unix.Close(l.epoll)
	_ = unix.Close(l.wake)
}

func (l *loop) event(e *unix.EpollEvent) {
	if int(e.Fd) == l.wake {
		l.carryOut()
		return
	}
	c := l.conns[int(e.Fd)]
	if c == nil {
		return // closed by an event before this one
	}
	l.now = l.fleet.clock.Now()
	var err error
	if e.Events&unix.EPOLLOUT != 0 {
		err = c.flush()
	}
	if err == nil && e.Events&^unix.EPOLLOUT != 0 {
		err = c.read()
	}
	if err != nil {
		l.fail(fmt.Errorf("client %d: %w", c.clients[0].id, err))
		l.close(c)
	}
}

func (l *loop) close(c *conn) {
	if c.opening {
		c.opening = false
		l.opening--
	}
	c.close()
}

// dial opens a few of the connections that are to be opened: what has arrived on
// others has its turn in between.
func (l *loop) dial() {
	for range 16 {
		if len(l.dialling) == 0 || l.opening >= maxOpening {
			return
		}
		c := l.dialling[0]
		l.dialling = l.dialling[1:]
		l.opening++
		if err := c.open(l.fleet.addr); err != nil {
			l.fail(fmt.Errorf("client %d: %w", c.clients[0].id, err))
			l.close(c)
		}
	}
}

// do has the loop's goroutine carry something out, and waits for that.
func (l *loop) do(task func()) {
	done := make(chan struct{})
	l.mu.Lock()
	l.tasks = append(l.tasks, func() { task(); close(done) })
	l.mu.Unlock()
	_, _ = unix.Write(l.wake, binary.NativeEndian.AppendUint64(nil, 1)) // it fails if it is awake already
	<-done
}

func (l *loop) carryOut() {
	var count [8]byte
	_, _ = unix.Read(l.wake, count[:]) // nothing but the reset of the eventfd
	l.mu.Lock()
	tasks := l.tasks
	l.tasks = nil
	l.mu.Unlock()
	for _, task := range tasks {
		task()
	}
}

// fail notes an error, of which the first one ends what is waited for.
func (l *loop) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	l.tell()
}

// tell wakes who waits, if there is reason to.
func (l *loop) tell() {
	if l.waiter != nil && (l.waiting == 0 || l.err != nil) {
		l.waiter <- l.err
		l.waiter = nil
	}
}

// lack notes that a client lacks one more thing.
func (l *loop) lack(c *client) {
	c.short++
	if !c.behind && !c.conn.paused {
		l.waiting++
	}
	c.behind, c.doneAt = true, 0
}

// settle notes that a client lacks nothing any more, if that is so.
func (l *loop) settle(c *client) {
	if !c.behind || c.short > 0 {
		return
	}
	c.behind, c.doneAt = false, l.now
	if !c.conn.paused {
		l.waiting--
		l.tell()
	}
}

// stale counts for how long a client went without the updates that it has now.
func (l *loop) stale(number int, was, now uint32) {
	if s := l.schedule; s != nil {
		for revision := was; revision < now; revision++ { // counted from 1 in held
			l.staleness.Add(s.since(number, int(revision), l.now), 1)
		}
	}
}
