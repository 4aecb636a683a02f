package loadreport

import (
	"maps"
	"sync"
)

// observation is what an observer was told.
type observation struct {
	clients, received, sent, opened, open, failed int
	dropped                                       map[Dropped]int
	refused                                       map[Refusal]int
	served                                        bool
}

// counted counts what an observer is told.
type counted struct {
	mu  sync.Mutex
	now observation
}

func newCounts() *counted {
	return &counted{now: observation{dropped: make(map[Dropped]int), refused: make(map[Refusal]int)}}
}

func observed(s *Scope) observation { return s.observer.(*counted).get() }

func (c *counted) get() observation {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now
	now.dropped, now.refused = maps.Clone(now.dropped), maps.Clone(now.refused)
	return now
}

func (c *counted) note(f func(*observation)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.now)
}

func (c *counted) Joined()                  { c.note(func(o *observation) { o.clients++ }) }
func (c *counted) Left()                    { c.note(func(o *observation) { o.clients-- }) }
func (c *counted) Received()                { c.note(func(o *observation) { o.received++ }) }
func (c *counted) Sent()                    { c.note(func(o *observation) { o.sent++ }) }
func (c *counted) Dropped(d Dropped, n int) { c.note(func(o *observation) { o.dropped[d] += n }) }
func (c *counted) Refused(r Refusal)        { c.note(func(o *observation) { o.refused[r]++ }) }
func (c *counted) StreamOpened()            { c.note(func(o *observation) { o.opened++; o.open++ }) }
func (c *counted) StreamClosed()            { c.note(func(o *observation) { o.open-- }) }
func (c *counted) Failed()                  { c.note(func(o *observation) { o.failed++ }) }
func (c *counted) Served(s bool)            { c.note(func(o *observation) { o.served = s }) }
