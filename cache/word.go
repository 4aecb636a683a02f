package cache

import "time"

// hear records that the server answered the type. Lists may have waited for that alone.
func hear(t *Table, now time.Time) {
	r := &t.upstream.restored
	if r.left > 0 && r.answered.IsZero() {
		r.answered = now
	}
	if r.left > 0 && !r.speaks {
		for p := range t.store.places {
			t.store.journal.ring(p.Bell())
		}
	}
	r.speaks, r.spoke = true, true
}

// AwaitsWord reports whether lists wait for the server's word of a name: it is restored, and the
// server has not had its time to answer, or answers nothing of the type (SUR-1, ABS-3).
func AwaitsWord(t *Table, e *Entry) bool {
	return e.Restored() && (t == nil || !t.upstream.restored.speaks || !e.marks.Overdue)
}

// AwaitsMembers reports the same of a collection. One without members restores nothing.
func AwaitsMembers(c *Collection) bool {
	return c.Restored() && c.Len() > 0 && (!c.table.upstream.restored.speaks || !c.quiet.overdue)
}

// NeverSpoke reports whether the server has answered nothing of the type in this process.
func NeverSpoke(t *Table) bool { return t != nil && !t.upstream.restored.spoke }
