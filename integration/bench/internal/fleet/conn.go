//go:build linux

package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
)

// outLimit is how much a connection prepares for its socket at a time.
const outLimit = 64 << 10

// conn is one connection. It belongs to its loop's goroutine.
type conn struct {
	loop    *loop
	fd      int // -1 while it is not connected
	clients []*client
	opening bool // nothing was received on any stream

	partial []byte // the beginning of a frame
	out     []byte // for the socket
	writing bool   // epoll tells when the socket takes more
	paused  bool   // nothing is read

	window      int64 // what may be sent
	firstWindow int64 // what may be sent on a stream that is opened
	given       int   // received, and not told to the server
}

var errClosed = errors.New("the server closed the connection")

// open connects, and opens the streams of the connection's clients.
func (c *conn) open(at netip.AddrPort) error {
	fd, err := dial(at)
	if err != nil {
		return err
	}
	c.fd, c.window, c.firstWindow, c.given = fd, firstWindow, firstWindow, 0
	c.partial, c.out, c.writing, c.opening = nil, c.out[:0], false, true
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(c.loop.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	c.loop.conns[fd] = c
	c.out = appendPreface(c.out, c.loop.fleet.window)
	for _, cl := range c.clients {
		cl.begin()
		headers := c.loop.fleet.headers
		c.out = appendFrameHead(c.out, http2.FrameHeaders, wholeHeaders, cl.stream, len(headers))
		c.out = append(c.out, headers...)
		for i := range cl.subscriptions {
			cl.subscribe(&cl.subscriptions[i], i == 0)
		}
	}
	return c.flush()
}

// dial waits until the connection stands: on this machine that is at once, unless
// the server's queue is full.
func dial(at netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	// Closing resets the connection, so that no port waits for late segments.
	err = errors.Join(
		unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
		unix.SetNonblock(fd, true),
	)
	if err != nil {
		return -1, fmt.Errorf("connecting to %s: %w", at, errors.Join(err, unix.Close(fd)))
	}
	return fd, nil
}

// close gives the socket back.
func (c *conn) close() {
	if c.fd < 0 {
		return
	}
	delete(c.loop.conns, c.fd)
	_ = unix.Close(c.fd) // which takes it out of epoll, too
	c.fd = -1
}

// read takes what the socket has, through the loop's buffer. One read is enough: if
// there is more, epoll says so again.
func (c *conn) read() error {
	b := c.loop.buffer
	kept := copy(b, c.partial)
	n, err := unix.Read(c.fd, b[kept:])
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("reading: %w", err)
	case n == 0:
		return errClosed
	}
	c.loop.counts.Bytes += n
	rest := b[:kept+n]
	for {
		var f frame
		var whole bool
		if f, rest, whole, err = cutFrame(rest); err != nil {
			return err
		}
		if !whole {
			break
		}
		if err := c.take(&f); err != nil {
			return err
		}
	}
	if c.partial = append(c.partial[:0], rest...); len(rest) == 0 && cap(c.partial) > keepCap {
		c.partial = nil
	}
	return c.flush()
}

// take carries out what one frame says.
func (c *conn) take(f *frame) error {
	switch f.kind {
	case http2.FrameData:
		return c.data(f)
	case http2.FrameHeaders:
		return c.headers(f)
	case http2.FrameSettings:
		return c.settings(f)
	case http2.FramePing:
		if !f.flags.Has(http2.FlagPingAck) {
			c.out = appendFrameHead(c.out, http2.FramePing, http2.FlagPingAck, 0, len(f.payload))
			c.out = append(c.out, f.payload...)
		}
	case http2.FrameWindowUpdate:
		return c.widen(f)
	case http2.FrameRSTStream:
		return fmt.Errorf("the server reset stream %d: %x", f.stream, f.payload)
	case http2.FrameGoAway:
		return fmt.Errorf("the server ends the connection: %q", f.payload)
	case http2.FrameContinuation:
		return errors.New("headers in more than one frame")
	default: // of no meaning to who does not know it
	}
	return nil
}

func (c *conn) data(f *frame) error {
	cl, err := c.client(f.stream)
	if err != nil {
		return err
	}
	body, err := f.body()
	if err != nil {
		return err
	}
	if c.opening {
		c.opening = false
		c.loop.opening--
	}
	window := c.loop.fleet.window
	// Padding counts as well.
	if c.given += len(f.payload); c.given >= window/2 {
		c.out = appendWindowUpdate(c.out, 0, c.given)
		c.given = 0
	}
	if cl.given += len(f.payload); cl.given >= window/2 {
		c.out = appendWindowUpdate(c.out, cl.stream, cl.given)
		cl.given = 0
	}
	if err := cl.decoder.feed(body, c.loop.fleet.state, cl); err != nil {
		return err
	}
	if f.flags.Has(http2.FlagDataEndStream) {
		return errClosed
	}
	return nil
}

func (c *conn) headers(f *frame) error {
	if !f.flags.Has(http2.FlagHeadersEndStream) {
		return nil // those that a stream begins with say nothing that is needed
	}
	block, err := f.body()
	if err != nil {
		return err
	}
	return trailerError(block)
}

func (c *conn) settings(f *frame) error {
	if f.flags.Has(http2.FlagSettingsAck) {
		return nil
	}
	for b := f.payload; len(b) >= 6; b = b[6:] {
		if http2.SettingID(binary.BigEndian.Uint16(b)) != http2.SettingInitialWindowSize {
			continue
		}
		wide := int64(binary.BigEndian.Uint32(b[2:]))
		for _, cl := range c.clients {
			cl.window += wide - c.firstWindow
		}
		c.firstWindow = wide
	}
	c.out = appendFrameHead(c.out, http2.FrameSettings, http2.FlagSettingsAck, 0, 0)
	return nil
}

// widen takes up that more may be sent.
func (c *conn) widen(f *frame) error {
	if len(f.payload) != 4 {
		return errors.New("a WINDOW_UPDATE of a wrong size")
	}
	more := int64(binary.BigEndian.Uint32(f.payload) &^ (1 << 31))
	if f.stream == 0 {
		c.window += more
		return nil
	}
	cl, err := c.client(f.stream)
	if err != nil {
		return err
	}
	cl.window += more
	return nil
}

// client gives the client of a stream: the first one is on stream 1, the next on 3.
func (c *conn) client(stream uint32) (*client, error) {
	at := int(stream / 2)
	if stream%2 == 0 || at >= len(c.clients) {
		return nil, fmt.Errorf("a frame on stream %d, which nobody opened", stream)
	}
	return c.clients[at], nil
}

// flush gives the socket what it takes: what is prepared, and then what waits for
// flow control.
func (c *conn) flush() error {
	for {
		for _, cl := range c.clients {
			cl.pump()
		}
		if len(c.out) == 0 {
			return c.await(false)
		}
		n, err := unix.Write(c.fd, c.out)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("writing: %w", err)
		}
		c.out = c.out[:copy(c.out, c.out[max(0, n):])]
		if len(c.out) > 0 {
			return c.await(true)
		}
		if cap(c.out) > keepCap {
			c.out = nil
		}
	}
}

// await says whether epoll is to tell when the socket takes more.
func (c *conn) await(writing bool) error {
	if c.writing == writing {
		return nil
	}
	c.writing = writing
	return c.watch()
}

// pause stops reading, or goes on with it.
func (c *conn) pause(paused bool) error {
	c.paused = paused
	return c.watch()
}

func (c *conn) watch() error {
	event := unix.EpollEvent{Fd: int32(c.fd)}
	if !c.paused {
		event.Events |= unix.EPOLLIN
	}
	if c.writing {
		event.Events |= unix.EPOLLOUT
	}
	if err := unix.EpollCtl(c.loop.epoll, unix.EPOLL_CTL_MOD, c.fd, &event); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}
