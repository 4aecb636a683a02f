package cache

import (
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// absences are the answers of a server that names of a table stand for nothing (RES-16).
// Guarded by Store.mu.
type absences struct {
	answered int // names with an answer
}

// absence is what there is to say of a name that stands for nothing.
type absence struct {
	// answer is the server's, as it came, nil if there is none. It may be the answer for
	// other names, too. asked is when the server was asked last, or answered.
	answer *wire.Resource
	asked  time.Time
	// served is the name of the resource that served the alias until that was removed:
	// its clients know it by that (RES-10).
	served string
}

// answer is the server's answer that the name stands for nothing, nil if there is none.
func (e *entry) answer() *wire.Resource {
	if e.absence == nil {
		return nil
	}
	return e.absence.answer
}

// served is the name of the resource that served the alias, "" if none did.
func (e *entry) served() string {
	if e.absence == nil {
		return ""
	}
	return e.absence.served
}

// setServed notes that it was the removal of that resource that took the alias away.
func (e *entry) setServed(name string) { e.own().absence = &absence{served: strings.Clone(name)} }

// any reports whether any name has an answer: a client may be sent it for several of its
// names then.
func (a *absences) any() bool { return a.answered > 0 }

// answer records the server's answer for e, which is absent.
func (a *absences) answer(e *entry, r *wire.Resource, now time.Time) {
	if e.answer() == nil {
		a.answered++
	}
	e.own().absence = &absence{answer: r, asked: now}
}

// end forgets what there was to say of e. It is not true any more, or nobody wants e.
func (a *absences) end(e *entry) {
	if e.absence == nil {
		return
	}
	if e.absence.answer != nil {
		a.answered--
	}
	e.own().absence = nil
	e.tidy()
}

// check verifies what there is to say of absent names.
func (a *absences) check(c *checker, entries map[string]*entry) {
	answered := 0
	for key, e := range entries {
		if e.answer() != nil {
			answered++
		}
		c.that(e.absence == nil || (e.state == absent && (e.wanted() || e.interest != nil)),
			"%q is %s, and the server said that it stands for nothing", key, e.state)
	}
	c.that(answered == a.answered, "%d answers counted as %d", answered, a.answered)
}
