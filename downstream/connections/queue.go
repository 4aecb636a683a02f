package connections

import (
	"net/netip"
	"time"
)

// queue has the connections of a listener that are to be served. The addresses that they come from take
// turns, so that one with thousands of them holds up no other. Of an address the newest is next: its client
// waits for the longest time yet, while that of the oldest is about to give up. The zero queue is empty.
type queue struct {
	waiting map[netip.Prefix][]*Conn // the oldest first; none is empty but for a moment
	turns   []netip.Prefix           // of waiting, each once
	size    int
}

func (q *queue) push(c *Conn) {
	if q.waiting == nil {
		q.waiting = make(map[netip.Prefix][]*Conn)
	}
	of, known := q.waiting[c.who.Address]
	if !known {
		q.turns = append(q.turns, c.who.Address)
	}
	q.waiting[c.who.Address] = append(of, c)
	q.size++
}

// pop takes out the next; nil if there is none.
func (q *queue) pop() *Conn {
	for len(q.turns) > 0 {
		address := q.turns[0]
		q.turns = q.turns[1:]
		of := q.waiting[address]
		last := len(of) - 1
		if last < 0 {
			delete(q.waiting, address) // all have gone
			continue
		}
		c := of[last]
		of[last] = nil
		if last == 0 {
			delete(q.waiting, address)
		} else {
			q.waiting[address] = of[:last]
			q.turns = append(q.turns, address)
		}
		q.size--
		return c
	}
	return nil
}

// before takes out those that came before a time.
func (q *queue) before(t time.Time) (all []*Conn) {
	for address, of := range q.waiting {
		n := 0
		for n < len(of) && of[n].came.Before(t) {
			n++
		}
		all = append(all, of[:n]...)
		q.waiting[address] = of[n:]
	}
	q.size -= len(all)
	return all
}

// clear takes out all.
func (q *queue) clear() (all []*Conn) {
	for c := q.pop(); c != nil; c = q.pop() {
		all = append(all, c)
	}
	return all
}
