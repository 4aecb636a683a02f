package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// absences are the answers of a server that names of a table stand for nothing (RES-16).
// Guarded by Store.mu.
type absences struct {
	answered int // names with an answer
}

// any reports whether any name has an answer: a client may be sent it for several of its
// names then.
func (a *absences) any() bool { return a.answered > 0 }

// answer records the server's answer for e, which is absent.
func (a *absences) answer(e *Entry, r *wire.Resource, now time.Time) {
	if e.extra.absence.Answer() == nil {
		a.answered++
	}
	e.extra.own().absence = &Absence{answer: r, asked: now}
}

// end forgets e's absence: it is over, or nobody subscribes to e.
func (a *absences) end(e *Entry) {
	if e.extra.absence == nil {
		return
	}
	if e.extra.absence.answer != nil {
		a.answered--
	}
	e.extra.own().absence = nil
	e.extra.tidy()
}

// check verifies the absences of a table.
func (a *absences) check(c *Checker, entries map[string]*Entry) {
	answered := 0
	for key, e := range entries {
		if e.extra.absence.Answer() != nil {
			answered++
		}
		c.That(e.extra.absence == nil || (e.state == Absent && (e.wanted() || e.extra.demand != nil)),
			"%q is %s, and the server said that it stands for nothing", key, e.state)
	}
	c.That(answered == a.answered, "%d answers counted as %d", answered, a.answered)
}
