package cache

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// RejectedError is why a response is NACKed (ACK-6). Unless Partly, nothing of it
// was applied.
type RejectedError struct {
	Reason string
	Partly bool // only the named resources were left out
}

func (e *RejectedError) Error() string { return e.Reason }

// Partial says whether only the named resources were left out.
func (e *RejectedError) Partial() bool { return e.Partly }

// Apply puts a response of an upstream stream into the tables and wakes who waits
// for it. A *RejectedError says why it is to be NACKed: a name that occurs twice,
// a payload of another type, a name that cannot be parsed. What was cached stays.
// Resources that nobody asked for are counted and left out (SUB-13).
func (s *Store) Apply(stream wire.StreamID, r *wire.DeltaResponse, received time.Time) error {
	u, err := newUpdate(r, received)
	if err != nil {
		return err
	}
	return s.apply(stream, u)
}

func (s *Store) apply(stream wire.StreamID, u *update) error {
	r := u.response
	s.identify(r.ControlPlane)
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.mu.Lock()
	clear(s.brought)
	s.brought = s.brought[:0]
	var room [2]*table
	switch tables := s.carried(stream, r.TypeURL, room[:]); len(tables) {
	case 0:
		u.unsolicited = len(r.Resources)
	case 1:
		u.apply(tables[0])
	default:
		u.applyShared(tables[0], tables[1])
	}
	s.finish()
	s.mu.Unlock()
	s.flushWakes()
	s.cache.trim()
	if u.unsolicited > 0 {
		s.cache.observer.Unsolicited(r.TypeURL, u.unsolicited)
	}
	u.tellForeign(s)
	u.tellAmbiguous(s.cache.observer)
	if len(u.bad) > 0 {
		return &RejectedError{Reason: errors.Join(u.bad...).Error(), Partly: true}
	}
	return nil
}

// update is a response on its way into a table.
type update struct {
	response    *wire.DeltaResponse
	state       *wire.StateResponse // what response was made of; nil if it came as it is
	keys        []string            // of response.Resources; badKey where the name is bad
	removed     []string            // keys of response.Removed, likewise
	failed      []string            // keys of response.Errors, likewise, and badKey where it was named before
	failing     map[string]bool     // the same as a set; nil without any
	resolved    bool                // the relay itself says so
	bad         []error
	received    time.Time
	unsolicited int
	foreign     int    // resources that the server does not speak for
	foreigner   string // the name of one of them
	variantUpdate
}

// badKey stands in an update for a key that is left out. No name has it: a NUL begins
// only locators, which have more behind it. The empty string is a name (NAME-9).
const badKey = "\x00"

// newUpdate works out the keys and checks the envelope, before any lock is taken.
func newUpdate(r *wire.DeltaResponse, received time.Time) (*update, error) {
	u := &update{response: r, received: received}
	u.keys = make([]string, len(r.Resources))
	for i, res := range r.Resources {
		if typeURL := res.TypeURL(); res.HasPayload() && !wire.MayHold(r.TypeURL, typeURL) {
			return nil, &RejectedError{Reason: fmt.Sprintf("resource %q is of type %q in a response for %q",
				res.Name, typeURL, r.TypeURL)}
		}
		u.keys[i] = badKey
		if err := badTTL(res); err != nil {
			u.bad = append(u.bad, err)
			continue
		}
		key := u.key(res.Name)
		if err := misnamed(key, r.TypeURL, res); err != nil {
			u.bad = append(u.bad, err)
			continue
		}
		u.keys[i] = key
	}
	u.removed = make([]string, len(r.Removed))
	for i, name := range r.Removed {
		u.removed[i] = u.key(name)
	}
	u.keysOfErrors()
	u.compile()
	switch twice, found := duplicate(u.identities()); {
	case found && twice == "":
		return nil, &RejectedError{Reason: `resource "" occurs twice: in the state of the world, resources of ` +
			"types that this relay does not know must be wrapped in envoy.service.discovery.v3.Resource with a name"}
	case found:
		return nil, &RejectedError{Reason: fmt.Sprintf("resource %q occurs twice", twice)}
	}
	return u, nil
}

// keysOfErrors works out what the errors are of: of two of one name the first counts. The
// wildcard may be called "" there; so is a name (nameErrors).
func (u *update) keysOfErrors() {
	if len(u.response.Errors) == 0 {
		return
	}
	u.failed = make([]string, len(u.response.Errors))
	u.failing = make(map[string]bool, len(u.failed))
	for i := range u.response.Errors {
		key := Wildcard
		if name := u.response.Errors[i].Name; name != "" {
			key = u.key(name)
		}
		u.failed[i] = badKey
		if !u.failing[key] {
			u.failed[i], u.failing[key] = key, true
		}
	}
}

// nameErrors has an error without a name be that of the name "" where the table has
// names (NAME-9). There the wildcard is not subscribed to.
func (u *update) nameErrors(t *table) {
	if t.kind == wholeType || t.entries[""] == nil || u.resolved || !u.failing[Wildcard] {
		return
	}
	for i, key := range u.failed {
		if key == Wildcard && u.response.Errors[i].Name == "" {
			delete(u.failing, Wildcard)
			u.failed[i], u.failing[""] = "", true
		}
	}
}

func (u *update) key(name string) string {
	key, err := keyer.Key(name)
	if err != nil {
		u.bad = append(u.bad, err)
		return badKey
	}
	if wire.IsLocator(key) {
		u.bad = append(u.bad, fmt.Errorf("the name %q begins with a NUL", key))
		return badKey
	}
	return key
}

// misnamed says that a resource has a name under which there can be no such payload:
// a glob has none at all and cannot be redirected (LOC-2), and a list collection has
// the name of one (LIST-1).
func misnamed(key, typeURL string, r *wire.Resource) error {
	switch {
	case !r.HasPayload() || key == badKey:
		return nil
	case keyer.IsGlob(key) && r.TypeURL() == wire.RedirectTypeURL:
		return fmt.Errorf("glob collection %q is redirected: only its members may be (LOC-2)", key)
	case keyer.IsGlob(key):
		return fmt.Errorf("glob collection %q has a payload of type %q: only its members have payloads", key, r.TypeURL())
	case r.TypeURL() == typeURL || r.TypeURL() == wire.RedirectTypeURL:
		return nil
	case keyer.TypeOf(key) != r.TypeURL()[strings.LastIndexByte(r.TypeURL(), '/')+1:]:
		return fmt.Errorf("resource %q is of type %q, which its name does not say (LIST-1)", key, r.TypeURL())
	default:
		return nil
	}
}

// duplicate finds a key that occurs twice.
func duplicate(keys, removed []string) (key string, found bool) {
	if len(keys)+len(removed) < 2 {
		return "", false
	}
	all := slices.Concat(keys, removed)
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] && all[i] != badKey {
			return all[i], true
		}
	}
	return "", false
}

// saysNothing reports whether nothing of a response can be used: it is no answer, since
// an answer without members would be an empty list to clients of the state of the world.
func (u *update) saysNothing() bool {
	bad := func(key string) bool { return key == badKey }
	all := func(keys []string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return !bad(key) })
	}
	return len(u.bad) > 0 && all(u.keys) && all(u.removed) && all(u.failed) && len(u.removals) == 0
}

func (u *update) apply(t *table) {
	if u.response.SystemVersion != "" {
		t.systemVersion = u.response.SystemVersion
	}
	t.mark++
	u.leaveOutForeign(t)
	u.nameErrors(t)
	u.answersWholes(t)
	if !u.resolved && !u.saysNothing() {
		t.answer(u.received, len(u.keys) == u.foreign)
	}
	for i, r := range u.response.Resources {
		if u.keys[i] != badKey && !u.variant(t, i, r) {
			u.resource(t, u.keys[i], r)
		}
	}
	for i, key := range u.removed {
		if len(t.aliases.of(key)) > 0 {
			u.remove(t, key, u.response.Removed[i]) // before its aliases, which may be named too (RES-10)
		}
	}
	for i, key := range u.removed {
		switch {
		case key == badKey:
		case t.variants.of(key) != nil:
			u.touch(t, key).remove(nil)
		default:
			u.remove(t, key, u.response.Removed[i])
		}
	}
	if len(u.touched) > 0 || t.variants.any() {
		u.matchVariants(t)
	}
	for i, key := range u.failed {
		if key != badKey {
			u.fail(t, key, &u.response.Errors[i])
		}
	}
	if u.state != nil {
		u.conclude(t)
	}
}

// resource applies one resource.
func (u *update) resource(t *table, key string, r *wire.Resource) {
	e := t.entries[key]
	coll := t.collectionOf(key, e)
	if !r.HasPayload() {
		u.bare(t, key, r)
		return
	}
	aliases := !u.resolved && serveAliases(t, key, r, u.received)
	if coll == nil && (e == nil || (e.interest == nil && !e.member())) {
		if !aliases {
			u.unsolicited++
		}
		return
	}
	if e == nil {
		e = t.entry(key)
		e.lent = true // or will be, when it holds r
	}
	t.aliases.drop(e)
	isNew := coll != nil && !e.member()
	solved := e.err != nil && !u.failing[key] && e.there() && e.res != nil && u.same(e.res, r)
	switch {
	case r.DoNotCache:
		t.pass(e, r, coll, u.received)
	case e.res == nil || !u.same(e.res, r):
		t.set(e, r, coll, u.received)
	case isNew:
		// Held already because it was asked for by name; now it also is a member.
		e.received = u.received.UnixNano()
		coll.touch(e, t.store.next())
		coll.bytes += e.size()
		t.store.changed(coll)
		t.store.bring(e)
		t.references.usersChanged(e)
		t.resent(e, r, u.received)
	default:
		if r.Size() == e.res.Size() { // or it is called otherwise (same)
			e.res = r
			t.lend(e)
			if coll != nil {
				coll.runs.drop()
			}
		}
		t.resent(e, r, u.received)
	}
	if solved && e.err != nil {
		t.returned(e)
	}
	e.mark = t.mark
	if coll != nil {
		coll.quiet.confirm(e, isNew, u.received)
	}
}

// same reports whether a resource is what is held. What the relay resolves may come
// from an alternative under another name: that alone is no change (RES-1).
func (u *update) same(held, r *wire.Resource) bool {
	return held.SameContent(r) || (u.resolved && held.Version == r.Version && bytes.Equal(held.Any(), r.Any()))
}

// answer notes that the type was answered since its collections were subscribed
// to: their quiet time begins (RES-14).
func (t *table) answer(now time.Time, empty bool) {
	var standing map[*collection]struct{} // not answered by an error that leaves it open (ERR-1)
	for c := range t.unanswered {
		if c.errors.leavesOpen() {
			if standing == nil {
				standing = make(map[*collection]struct{})
			}
			standing[c] = struct{}{}
			continue
		}
		if !c.interest.subscribed || !c.quiet.answered.IsZero() {
			continue
		}
		c.quiet.answered = now
		t.store.unsettled[c] = struct{}{}
		if empty && c.knownEmpty() {
			t.store.changed(c) // followers can be told that there is nothing
		}
	}
	t.unanswered = standing
}

// bare applies a resource without payload: a heartbeat if its version is the one
// held, else word that its aliases stand for nothing, and without any, of an older server,
// that it does not exist (RES-16). In the state of the world it is always a heartbeat.
func (u *update) bare(t *table, key string, r *wire.Resource) {
	if e := t.entries[key]; e != nil {
		e.mark = t.mark
	}
	for _, e := range t.aliases.of(key) {
		e.mark = t.mark
	}
	if u.state != nil {
		u.heartbeat(t, key, r)
		return
	}
	switch {
	case r.Version != "" && u.heartbeat(t, key, r):
	case len(r.Aliases()) > 0:
		u.bareAliases(t, r)
	default:
		u.remove(t, key, r.Name)
	}
}

// remove applies a removal: of a resource, or of all members of a glob (GLOB-4).
// That "*" does not exist is what a server says that takes it for a name: it
// means nothing.
func (u *update) remove(t *table, key, name string) {
	if c := t.colls[key]; c != nil && !c.wildcard() {
		c.dropError(key)
		t.empty(c, u.received)
		return
	}
	dropAliases(t, key, u.received)
	e := t.entries[key]
	if c := t.collectionOf(key, e); c != nil {
		c.dropError(key)
	}
	if e == nil || e.state == absent {
		return // not asked for, or known already
	}
	if e.res == nil {
		e.setName(name)
	}
	t.unset(e, absent, nil, u.received)
}

// empty carries out the server's word that a collection has no members.
func (t *table) empty(c *collection, now time.Time) {
	wasSynced := c.synced
	c.synced = true
	for c.live.head != nil {
		t.unset(c.live.head, absent, nil, now)
	}
	if !wasSynced {
		t.store.changed(c)
	}
}

// Settle ends the quiet time of the collections that have been answered for long
// enough at now: they are complete, so that what clients hold beyond the members is known
// not to exist, and a while later what the server did not confirm since the stream began
// is removed. It does the same for the clocks of names (Source.Absent), lets go of names that
// nothing refers to any more (SUB-11), and drops what has outlived its ttl (TTL-2). It returns
// when to call it again, zero if nothing waits; after TakeDemand and Restart it has to be
// asked anew.
func (s *Store) Settle(now time.Time) time.Time {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.mu.Lock()
	var next time.Time
	for c := range s.unsettled {
		at := c.quiet.end(c.synced, s.source.Quiet, s.source.longQuiet())
		switch {
		case at.IsZero():
			delete(s.unsettled, c)
		case now.Before(at):
			next = sooner(next, at)
		default:
			c.table.settle(c, now)
			if at = c.quiet.end(c.synced, s.source.Quiet, s.source.longQuiet()); at.IsZero() {
				delete(s.unsettled, c)
			}
			next = sooner(next, at)
		}
	}
	for t := range s.waiting {
		next = sooner(next, t.expireClocks(now))
	}
	next = sooner(next, s.expireStrays(now))
	for t := range s.timed {
		next = sooner(next, t.expireTTLs(now))
	}
	s.finish()
	s.mu.Unlock()
	s.flushWakes()
	s.cache.trim()
	return next
}

func (t *table) settle(c *collection, now time.Time) {
	if !c.synced {
		t.sync(c)
		return
	}
	for e := c.live.head; e != nil && c.quiet.stale > 0; {
		next := e.next
		// A name with its own subscription is answered by itself.
		if c.quiet.isStale(e) {
			if e.interest != nil && e.interest.subscribed && t.kind == byName {
				c.quiet.trust(e)
			} else {
				t.unset(e, absent, nil, now)
			}
		}
		e = next
	}
}

// sync notes that all members are here, and tells who waited for that.
func (t *table) sync(c *collection) {
	c.synced = true
	for _, f := range c.followers {
		if !f.versions.none() || len(f.watch.answers) > 0 || !f.told || f.client.reads() {
			t.store.wake(f.watch)
		}
	}
}
