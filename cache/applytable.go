package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func (u *update) apply(t *Table) {
	if !u.response.State {
		t.serverVersions.noteSystem(u.response.Version)
	}
	t.upstream.response++
	u.leaveOutForeign(t)
	u.nameErrors(t)
	u.answersWholes(t)
	u.judge(t)
	if !u.resolved && !u.restored && !u.response.Beside && !u.saysNothing() {
		t.hear(u.received)
		if !u.onlyDelays() && !(t.behindRelay() && u.onlyNamesGone(t)) {
			t.answered(u.received, len(u.keys) == u.foreign)
		}
	}
	for i, r := range u.response.Resources {
		if u.keys[i] != badKey {
			u.resource(t, u.keys[i], r)
		}
	}
	if !u.response.State {
		u.removals(t)
	}
	for i, key := range u.failed {
		if key != badKey {
			u.fail(t, key, &u.response.Errors[i])
		}
	}
	if u.response.State {
		u.conclude(t)
	}
}

// onlyNamesGone reports whether an incremental response says nothing but that names do not exist which the server is asked
// for by name. A relay that knows that may know nothing yet of the glob that such a name is in.
func (u *update) onlyNamesGone(t *Table) bool {
	if u.response.State || len(u.response.Resources) > 0 || len(u.removed)+len(u.failed) == 0 {
		return false
	}
	byName := func(key string) bool {
		e := t.entries[key]
		return e != nil && e.extra.demand != nil && e.extra.demand.subscribed
	}
	return !slices.ContainsFunc(slices.Concat(u.removed, u.failed), func(key string) bool { return !byName(key) })
}

// removals applies what an incremental response removes.
func (u *update) removals(t *Table) {
	for i, key := range u.removed {
		if len(t.aliases.of(key)) > 0 {
			u.remove(t, key, u.response.Removed[i]) // before its aliases, which may be named too (RES-10)
		}
	}
	for i, key := range u.removed {
		if key != badKey {
			u.remove(t, key, u.response.Removed[i])
		}
	}
}

// answered records that the type was answered after its collections were subscribed to: their
// quiet time begins (RES-14).
func (t *Table) answered(now time.Time, empty bool) {
	asked := t.upstream.questions.answer()
	var standing map[*Collection]struct{} // not answered by an error that leaves it open (ERR-1)
	for c := range t.upstream.unanswered {
		if c.errors.leavesOpen() {
			standing = with(standing, c)
			continue
		}
		if !c.demand.subscribed || !c.quiet.answered.IsZero() {
			continue
		}
		c.quiet.answer(now, asked)
		t.store.due.unsettled[c] = struct{}{}
		if empty && c.log.live.len == 0 && c.Answered() {
			t.store.changes.add(c) // followers can be told that there is nothing
		}
	}
	t.upstream.unanswered = standing
}

// conclude applies what a response says by leaving it out. A response with a bad name is
// rejected, and removes nothing.
func (u *update) conclude(t *Table) {
	if u.response.Complete {
		u.unsolicited = 0 // the source says everything of the type, unasked
	}
	if !u.concludes() {
		return
	}
	if u.lists(t) {
		u.endExcuses(t)
		if t.kind == WholeType {
			u.concludeWildcard(t)
		} else {
			u.concludeNames(t)
		}
		u.dropUnlisted(t)
	} else if u.response.Partial {
		u.concludeRemoved(t)
	}
	if u.response.Beside {
		return // its version is that of another stream, which may be ahead
	}
	t.serverVersions.info = u.response.Version
	if !t.upstream.held.any() { // else it does not stand for what clients are shown
		t.serverVersions.note()
	}
}

func (u *update) concludeWildcard(t *Table) {
	c := t.colls[Wildcard]
	if c == nil {
		return // unsubscribed, and the server has not read it yet
	}
	if u.failing[Wildcard] {
		return // it does not know what there is (ERR-1)
	}
	u.sweepMembers(t, c)
	if !c.quiet.synced && c.demand.subscribed {
		t.completed(c)
	}
	if named := t.other(); named != nil {
		for _, e := range named.entries {
			u.concludeUnlisted(named, e)
		}
	}
}

// concludeUnlisted has a name not exist that neither its own list nor that of the wildcard has. Its own must not be able
// to answer an older request. One of both lists is not enough: the wildcard may leave out what is served by name alone,
// and a server that was asked by name may still look for it (RES-7).
func (u *update) concludeUnlisted(t *Table, e *Entry) {
	if i := e.extra.demand; i == nil || !i.unlisted || !i.subscribed || !e.Open() {
		return
	}
	whole := t.other()
	if whole == nil || keyer.IsXDSTP(e.key) { // which "*" does not have anyway
		return
	}
	c, member := whole.colls[Wildcard], whole.entries[e.key]
	if c != nil && c.quiet.synced && (member == nil || !member.Exists()) {
		t.become(e, content{state: Absent}, said, u.received)
	}
}

// sweepMembers removes the members that the response does not hold.
func (u *update) sweepMembers(t *Table, c *Collection) {
	for e := c.log.live.head; e != nil; {
		next := e.next
		if e.response != t.upstream.response && !u.isExcused(t, e) {
			t.lose(e, u.received)
		}
		e = next
	}
}

func (u *update) concludeNames(t *Table) {
	var gone []*Entry
	for _, e := range t.entries {
		if e.response == t.upstream.response {
			continue
		}
		switch {
		case u.isExcused(t, e):
		case e.Exists():
			gone = append(gone, e)
		case u.response.Complete && (e.state == Unknown || e.state == Failed):
			t.become(e, content{state: Absent}, said, u.received)
		case e.extra.demand != nil:
			e.extra.demand.unlisted = e.extra.demand.opening
			u.concludeUnlisted(t, e)
		}
	}
	t.loseNames(gone, u.received)
	if !u.response.Complete {
		return
	}
	for _, c := range t.colls {
		if c.demand.subscribed && !c.quiet.synced && !c.errors.leavesOpen() {
			t.completed(c)
		}
	}
}

// concludeRemoved removes what a partial list names as gone.
func (u *update) concludeRemoved(t *Table) {
	var gone []*Entry
	for _, key := range u.removed {
		if e := t.entries[key]; e != nil && e.Exists() && e.response != t.upstream.response {
			gone = append(gone, e)
		}
	}
	t.loseNames(gone, u.received)
}

// dropUnlisted forgets what is held of names that clients do not have, and a list does not have
// any more.
func (u *update) dropUnlisted(t *Table) {
	if !t.upstream.held.any() {
		return
	}
	listed := make(map[string]bool, len(u.keys))
	for _, key := range u.keys {
		listed[key] = true
	}
	t.upstream.held.dropNew(t.shown(), listed)
}

// endExcuses ends the excuses of resources that a list holds all the same: when the next
// list lacks one, it is gone.
func (u *update) endExcuses(t *Table) {
	for e := range t.excuses.entries {
		if e.response == t.upstream.response && !u.failing[e.key] {
			t.excuses.drop(e)
		}
	}
}

// isExcused reports whether a resource that is not in a list may exist all the same. A
// source that says everything each time would say why, if it was asked.
func (u *update) isExcused(t *Table, e *Entry) bool {
	if i := e.extra.demand; i != nil && i.leftOut {
		return true
	}
	if u.response.Complete {
		return false
	}
	return t.excuses.has(e) || (e.Member() && e.coll.errors.leavesOpen())
}
