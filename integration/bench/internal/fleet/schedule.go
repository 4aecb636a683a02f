//go:build linux

package fleet

import (
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

// Schedule is when which update is due: update n, counted from 0, changes the item
// n modulo Items of the resources from First on, to the revision n / Items + 1, and is
// due n intervals after Start. A server that cannot keep up is late by it.
type Schedule struct {
	Start    int64 // of clock.Clock
	Interval time.Duration
	First    int
	Items    int
	Updates  int
}

// At gives item and revision of update n.
func (s *Schedule) At(n int) (item, revision int) { return n % s.Items, n/s.Items + 1 }

// Due is when update n is due.
func (s *Schedule) Due(n int) int64 { return s.Start + int64(n)*int64(s.Interval) }

// Revision is the one that an item is in after the first made updates.
func (s *Schedule) Revision(item, made int) int {
	if made <= item {
		return 0
	}
	return (made-item-1)/s.Items + 1
}

// since is how long a resource was due in a revision.
func (s *Schedule) since(number, revision int, now int64) time.Duration {
	n := (revision-1)*s.Items + number - s.First
	return time.Duration(now - s.Due(n))
}

// Follow has the clients measure how stale they are against a schedule, until it is
// nil.
func (f *Fleet) Follow(s *Schedule) {
	f.each(func(l *loop) {
		l.schedule = s
		if s != nil {
			l.staleness = report.Histogram{}
		}
	})
}

// CutOff ends that: what clients lack counts as stale until now.
func (f *Fleet) CutOff() {
	f.each(func(l *loop) {
		l.now = l.fleet.clock.Now()
		for _, cl := range l.clients {
			for number, held := range cl.held {
				if held != unwanted {
					l.stale(number, held, l.target[number])
				}
			}
		}
		l.schedule = nil
	})
}

// Staleness gives how long each client went without each update: one that was merged
// into a later one counts until that came.
func (f *Fleet) Staleness() *report.Histogram {
	var all report.Histogram
	f.each(func(l *loop) { all.Merge(&l.staleness) })
	return &all
}
