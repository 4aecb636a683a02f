package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/moment"
)

// Restored content comes from an earlier process (SUR-1). It goes to clients that present nothing
// for its name. It takes the place of nothing that a client presents, until the server confirms it:
//
//   - The server sends the same content, or a heartbeat for it.
//   - A server of the state of the world sends a list of a full-state type without it, and an error
//     that leaves open what became of it: the content stays, and is all that there is (ERR-1).
//   - The collection that it is a member of is complete: the server has sent what differs. An
//     incremental server that knows the versions may have nothing to send. To have it answer, the
//     version of one member is not presented (witness).
//   - Of names: an incremental server knows the versions that the relay holds, and has had its time to
//     send what differs (Source.ResumeQuiet). To have it answer at all, one name is presented in a
//     version that no content has (askedVersion). The time begins with the answer for that one: a relay
//     whose own control plane is away may answer for others. Only the server can answer: an eviction,
//     a ttl or an operator cannot. A server of the state of the world sends everything again: there
//     silence confirms nothing.

// restoredStore is what a store has of an earlier process. Guarded by Store.mu.
type restoredStore struct {
	asOf   time.Time           // when the content was last known to be current
	tables map[*Table]struct{} // with restored content
	heard  time.Time           // when the server answered last, whatever it was asked for; zero: never
}

// restoredTable is the same of a table. Guarded by Store.mu.
type restoredTable struct {
	left int // resources that were not confirmed

	// of the present stream
	witness  *demand   // of the name that the server must answer for, and has not; nil: none. See awaitsWitness
	lacks    bool      // the relay does not ask for it any more: the stream is to begin anew (lacksName)
	answered time.Time // the answer for it; zero until then
	silence  bool      // the server has had its time (confirmSilence)
}

// restart forgets the stream before.
func (r *restoredTable) restart() {
	*r = restoredTable{left: r.left}
}

// awaitsWitness reports whether the server has not answered for the name that it must answer for. If the relay does
// not ask for that any more, the server need not: the stream begins anew, with another one. To subscribe to that once
// more would not do, and neither would the same one that comes back: a relay whose control plane is away would send it
// as it was presented.
func awaitsWitness(t *Table) bool {
	r := &t.upstream.restored
	if r.witness == nil || r.lacks {
		return r.witness != nil
	}
	if !r.witness.subscribed && mayHaveWitness(t) {
		r.lacks = true
		t.store.demandSignal.send()
	}
	return true
}

// mayHaveWitness reports whether there is a name that the server would have to answer for on a new stream.
func mayHaveWitness(t *Table) bool {
	for _, e := range t.entries {
		if presentable(e) && isWitness(e) && !t.upstream.held.has(e) {
			return true
		}
	}
	return false
}

// lacksName reports whether the stream is to begin anew, with another witness. The server may have answered for all
// others meanwhile.
func lacksName(t *Table) bool {
	r := &t.upstream.restored
	r.lacks = r.lacks && mayHaveWitness(t)
	return r.lacks
}

// noteWitness is called after a response: from the answer for the witness on, silence about others counts.
func noteWitness(u *update, t *Table) {
	if r := &t.upstream.restored; r.witness != nil && !cameBack(r.witness) && answers(u, t, r.witness.entry.key) {
		r.witness, r.lacks, r.answered = nil, false, u.received
	}
}

// cameBack reports whether the relay subscribed to the name of a witness anew, without a version.
func cameBack(witness *demand) bool {
	e := witness.table.entries[witness.entry.key]
	return e != nil && e.extra.demand != nil && e.extra.demand != witness && e.extra.demand.subscribed
}

// answers reports whether a response says something of a name. A server that cannot tell what became of it has read
// the versions, too. A relay may say so of any name while its own control plane is away.
func answers(u *update, t *Table, key string) bool {
	if i := slices.Index(u.failed, key); i >= 0 {
		return !behindRelay(t) || !u.response.Errors[i].Transient()
	}
	e := t.entries[key]
	return slices.Contains(u.keys, key) || slices.Contains(u.removed, key) ||
		e != nil && e.response == t.upstream.response // it is an alias of what the response has
}

// restoredMembers is the same of a collection. Guarded by Store.mu.
type restoredMembers struct {
	is    bool // members come from an earlier process, or from a peer; until it is complete
	whole bool // all members were restored that there were then
}

// Restored reports whether the members come from an earlier process, and the server has not said
// in this one what members there are.
func (c *Collection) Restored() bool { return c.restored.is && !c.quiet.synced }

// confirm records that the server has the content of e.
func confirm(t *Table, e *Entry) {
	if !e.Restored() {
		return
	}
	e.res = e.res.Confirmed()
	t.upstream.restored.left--
	if e.coll != nil {
		e.coll.encoded.chunks.drop() // they refer to the resource
	}
	if e.extra.audience != nil {
		e.extra.audience.Confirmed()
	}
	if e.Member() {
		for _, f := range e.coll.followers {
			if f.follower.AwaitsMembers() {
				t.store.journal.ringType(f.bell)
			}
		}
	}
}

// confirmMembers confirms the members of a complete collection. The relay did not present stale
// members, or the server may mean to leave them out: they wait for the server's word (RES-14).
func confirmMembers(t *Table, c *Collection) {
	if !c.restored.is {
		return
	}
	c.restored.is = false
	for e := c.log.live.head; e != nil; e = e.next {
		if !c.quiet.isStale(e) {
			confirm(t, e)
		}
	}
}

// confirmSilence confirms the names of a table that the server knows the relay holds, and did not
// mention. It returns when that is due, zero if it is not.
func confirmSilence(t *Table, now time.Time) time.Time {
	r := &t.upstream.restored
	if t.store.source.State || r.left == 0 || awaitsWitness(t) || r.answered.IsZero() {
		return time.Time{}
	}
	if at := r.answered.Add(t.store.source.longQuiet()); now.Before(at) {
		return at
	}
	for _, e := range t.entries {
		if e.Restored() && e.extra.demand != nil && e.extra.demand.subscribed && !e.Member() {
			confirm(t, e)
		}
	}
	r.answered, r.silence = time.Time{}, true // the rest are members
	return time.Time{}
}

// confirmRestored ends the waiting of all tables. It returns when to call it again.
func confirmRestored(s *Store, now time.Time) (next time.Time) {
	for t := range s.restored.tables {
		next = moment.Earlier(next, confirmSilence(t, now))
		if t.upstream.restored.left == 0 {
			delete(s.restored.tables, t)
		}
	}
	return next
}

// isWitness reports whether the server should send the content of e again on a new stream, or say that
// it is gone, though the relay holds it: its answer shows that it has read the versions of the other names.
func isWitness(e *Entry) bool { return e.Restored() && e.extra.demand != nil && !e.Member() }
