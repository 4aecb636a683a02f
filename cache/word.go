package cache

import "time"

// hear records that the server answered for a table. Lists may have waited for that alone.
func (t *Table) hear(now time.Time) {
	s := t.store
	for other := range s.restored.tables {
		if other.spoke() {
			continue
		}
		for p := range s.places {
			s.journal.ring(p.Bell())
		}
		break
	}
	s.restored.heard = now
}

// spoke reports whether the server has answered anything since the table's stream began.
func (t *Table) spoke() bool {
	heard := t.store.restored.heard
	return !heard.IsZero() && !heard.Before(t.upstream.begun)
}

// AwaitsWord reports whether lists wait for the server's word of a name: it is restored, and the
// server has not had its time to answer, or answers nothing at all (SUR-1, ABS-3).
func (t *Table) AwaitsWord(e *Entry) bool {
	return e.Restored() && (t == nil || !e.marks.Overdue || !t.spoke())
}

// AwaitsMembers reports the same of a collection. One without members restores nothing. A relay may answer with
// what a disk had, but it sends what it was asked for once its own control plane has spoken.
func (c *Collection) AwaitsMembers() bool {
	return c.Restored() && c.Len() > 0 && (!c.quiet.overdue || !c.table.spoke() || c.owesMembers() && c.table.behindRelay())
}

// NeverSpoke reports whether the server has answered nothing in this process.
func (s *Store) NeverSpoke() bool { return s.restored.heard.IsZero() }
