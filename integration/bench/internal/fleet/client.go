//go:build linux

package fleet

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/http2"
)

// What a client holds of a resource: nothing, a revision (counted from 1), or
// nothing ever, since it does not ask for it.
const (
	nothing  uint32 = 0
	unwanted uint32 = 1<<32 - 1
)

// client is one stream. It belongs to its loop's goroutine.
type client struct {
	id            int
	conn          *conn
	stream        uint32
	subscriptions []Subscription

	window  int64    // what may be sent
	given   int      // received, and not told to the server
	queue   [][]byte // to be sent, by reference
	decoder decoder

	held   []uint32 // by number in the catalogue
	wanted int      // how many resources it asks for
	short  int      // of how many it does not hold what it should
	behind bool     // from the first of them until a response is there as a whole that leaves none
	doneAt int64    // when it last came to hold everything that it should; 0: not since the last target
	listed int      // resources in the response at hand
}

// want adds a subscription's resources to those that the client should hold.
func (c *client) want(s *Subscription) {
	l := c.conn.loop
	add := func(number int) {
		if c.held[number] != unwanted {
			return
		}
		c.held[number] = nothing
		c.wanted++
		l.lack(c)
	}
	if s.Items != nil {
		for _, number := range s.Items {
			add(number)
		}
		return
	}
	from, to := l.fleet.catalogue.Range(s.TypeURL)
	for number := from; number < to; number++ {
		add(number)
	}
}

// begin prepares for a new stream.
func (c *client) begin() {
	c.window, c.given, c.queue, c.decoder, c.listed = firstWindow, 0, nil, decoder{}, 0
}

// subscribe sends a request; first says that it is the stream's first one.
func (c *client) subscribe(s *Subscription, first bool) {
	id := -1
	if first {
		id = c.id
	}
	request := s.appendSubscribe(make([]byte, messageHead), c.conn.loop.fleet.catalogue, c.conn.loop.fleet.state, id)
	binary.BigEndian.PutUint32(request[1:], uint32(len(request)-messageHead+len(s.Versions)))
	c.queue = append(c.queue, request)
	if len(s.Versions) > 0 {
		c.queue = append(c.queue, s.Versions)
	}
}

// pump moves what flow control allows from the queue to the connection.
func (c *client) pump() {
	out := &c.conn.out
	for len(c.queue) > 0 && len(*out) < outLimit {
		allowed := min(c.window, c.conn.window, maxFrame)
		if allowed <= 0 {
			return
		}
		head := len(*out)
		*out = appendFrameHead(*out, http2.FrameData, 0, c.stream, 0)
		size := 0
		for len(c.queue) > 0 && size < int(allowed) {
			part := c.queue[0][:min(len(c.queue[0]), int(allowed)-size)]
			*out = append(*out, part...)
			size += len(part)
			if c.queue[0] = c.queue[0][len(part):]; len(c.queue[0]) == 0 {
				c.queue = c.queue[1:]
			}
		}
		(*out)[head], (*out)[head+1], (*out)[head+2] = byte(size>>16), byte(size>>8), byte(size)
		c.window -= int64(size)
		c.conn.window -= int64(size)
	}
	if len(c.queue) == 0 {
		c.queue = nil
	}
}

// whole implements receiver: it acknowledges a response.
func (c *client) whole(r *response) {
	l := c.conn.loop
	l.counts.Responses++
	if l.fleet.state && c.listed != c.wanted {
		l.fail(fmt.Errorf("client %d: a list of %d resources, there are %d", c.id, c.listed, c.wanted))
	}
	c.listed = 0
	c.acknowledge(r)
	l.settle(c)
}

// acknowledge answers at once if flow control allows, as it does unless the server
// stopped reading.
func (c *client) acknowledge(r *response) {
	state := c.conn.loop.fleet.state
	size := sizeAck(r, state)
	whole := messageHead + size
	if len(c.queue) > 0 || c.window < int64(whole) || c.conn.window < int64(whole) {
		request := make([]byte, messageHead, whole)
		binary.BigEndian.PutUint32(request[1:], uint32(size))
		c.queue = append(c.queue, appendAck(request, r, state))
		return
	}
	out := appendFrameHead(c.conn.out, http2.FrameData, 0, c.stream, whole)
	out = binary.BigEndian.AppendUint32(append(out, 0), uint32(size))
	c.conn.out = appendAck(out, r, state)
	c.window -= int64(whole)
	c.conn.window -= int64(whole)
}

// resource implements receiver.
func (c *client) resource(name, version, payload []byte) error {
	l := c.conn.loop
	found, err := l.fleet.catalogue.Find(payload, name, version)
	if err != nil {
		return err
	}
	was, now := c.held[found.Number], uint32(found.Revision)+1
	if was == unwanted {
		return fmt.Errorf("%q, which was not subscribed to", found.Name)
	}
	c.listed++
	l.counts.Resources++
	l.stale(found.Number, was, now)
	c.hold(found.Number, was, now)
	return nil
}

// removed implements receiver.
func (c *client) removed(name []byte) error {
	number, ok := c.conn.loop.fleet.catalogue.Number(name)
	if !ok || c.held[number] == unwanted {
		return fmt.Errorf("the removal of %q, which was not subscribed to", name)
	}
	c.conn.loop.counts.Removed++
	c.hold(number, c.held[number], nothing)
	return nil
}

// hold notes, from within a response, that the client holds a resource in another revision than before.
func (c *client) hold(number int, was, now uint32) {
	l := c.conn.loop
	c.held[number] = now
	switch due := l.target[number]; {
	case was == now:
	case now == due:
		c.short--
	case was == due:
		l.lack(c)
	}
}

// aim notes that the client should hold a resource in another revision than before.
func (c *client) aim(number int, old, due uint32) {
	switch c.held[number] {
	case old:
		c.conn.loop.lack(c)
	case due:
		c.short--
		c.conn.loop.settle(c)
	}
}

// check says what the client holds that it should not, or the other way round.
func (c *client) check() error {
	for number, held := range c.held {
		if due := c.conn.loop.target[number]; held != unwanted && held != due {
			return fmt.Errorf("client %d holds revision %d of %q (0 is nothing), the server has %d",
				c.id, held, c.conn.loop.fleet.catalogue.NameOf(number), due)
		}
	}
	return nil
}
