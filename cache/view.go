package cache

import (
	"hash/maphash"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Other packages use stores, tables and collections here. They hold the lock, for reading at
// least, unless a method needs none.

// View calls f under the lock for reading: the content stays as it is. A client may change its
// own cursors and subscriptions. A panic of f leaves the store unlocked (SUR-6).
func (s *Store) View(f func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f()
}

// Edit calls f under the lock for writing, and evicts idle resources beyond the limits after it.
// Nothing blocks under the lock. A panic of f leaves the store unlocked (SUR-6).
func (s *Store) Edit(f func()) {
	defer s.cache.trim()
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Turn takes the store's locks and releases them. It returns as soon as nobody holds them (SUR-5).
func (s *Store) Turn() {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.Edit(func() {})
}

// Revision is the number of the last change.
func (s *Store) Revision() uint64 { return s.journal.revision }

// LastHeartbeat is the number of the last heartbeat.
func (s *Store) LastHeartbeat() uint64 { return s.journal.heartbeats }

// Now is the time by the cache's clock. It needs no lock.
func (s *Store) Now() time.Time { return s.cache.Now() }

// Idle is how long idle resources are kept; 0: no limit.
func (s *Store) Idle() time.Duration {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	return s.cache.limits.Idle
}

// Seed is that of the hashes of versions that clients present. It needs no lock.
func (s *Store) Seed() maphash.Seed { return s.cache.seed }

// CountLookup tells the observer of a subscription. A hit was known already.
func (s *Store) CountLookup(typeURL string, hit bool) { s.cache.observer.Lookup(typeURL, hit) }

// FullState reports whether responses of a type hold everything (RES-2). It needs no lock.
func (s *Store) FullState(typeURL string) bool { return s.source.FullState[typeURL] }

// Outage is the error of names without any answer while the control plane cannot be reached
// (ABS-2), nil while it can. told is false while some clients are to wait for it: other stores are to know
// (TellOutage), or peers to be asked, before; Peers.Await says which. It needs no lock.
func (s *Store) Outage() (err *wire.ResourceError, told bool) {
	return s.outage.Load(), !s.outage.pending()
}

// FindTable returns the table of a type and a kind, nil if there is none.
func (s *Store) FindTable(typeURL string, k Kind) *Table { return s.tables[tableKey{typeURL, k}] }

// Ring has a type collected: its bell rings as soon as Store.mu is released. The caller holds
// applyMu and mu.
func (s *Store) Ring(b *TypeBell) {
	s.journal.ringType(b)
}

// Heard reports whether the last Apply brought content that goes to a client
// now. Content without subscribers does not, and neither does content that is held back since
// the lists of all its subscribers would lack something else (RES-2). If there are many
// subscribers, one of them counts as sent it. again says that it has clients offered again what they rejected (ACK-3).
func (s Session) Heard() (heard, again bool) {
	s.store.applyMu.Lock()
	defer s.store.applyMu.Unlock()
	s.store.mu.Lock() // for writing: clients change what is looked at under the lock for reading
	defer s.store.mu.Unlock()
	return s.store.changes.hear(), s.store.changes.again
}

// Enter adds a place. own says that it is the relay's own, and no stream's.
func (s *Store) Enter(p Place, own bool) {
	s.places[p] = own
	if own {
		s.readers++
	}
	if len(s.places) == 1 {
		s.demandSignal.send() // the session may have waited for somebody to come (UPS-2)
	}
}

// Leave takes a place away.
func (s *Store) Leave(p Place, own bool) {
	delete(s.places, p)
	if own {
		s.readers--
	}
}

// identify records the name that the control plane gives itself (STR-10). A server may say it
// with some of its responses only.
func (s *Store) identify(identifier string) {
	if identifier == "" {
		return
	}
	if known := s.controlPlane.Load(); known == nil || *known != identifier {
		s.controlPlane.Store(new(identifier)) // its own variable, or each call would allocate
	}
}

// ControlPlane is the last name that the control plane gave itself (STR-10), nil if it never did.
// The pointer changes with the name. Any goroutine may call it.
func (s *Store) ControlPlane() *string { return s.controlPlane.Load() }

// SetTimes replaces the times of the Source by those of another one. Running clocks count by the
// new ones. A time that is zero in either stays.
func (s Session) SetTimes(by *Source) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for is, becomes := range map[*time.Duration]time.Duration{
		&s.store.source.Quiet: by.Quiet, &s.store.source.ResumeQuiet: by.ResumeQuiet, &s.store.source.Absent: by.Absent,
	} {
		if *is > 0 && becomes > 0 {
			*is = becomes
		}
	}
	s.store.demandSignal.send() // the session asks anew when to Settle
}

// Store is the store that the table is of.
func (t *Table) Store() *Store { return t.store }

// Kind tells the table of "*" from that of names and globs.
func (t *Table) Kind() Kind { return t.kind }

// Find returns the entry with a canonical key, nil if there is none.
func (t *Table) Find(key string) *Entry { return t.entries[key] }

// SystemVersion is the last system_version_info of the server.
func (t *Table) SystemVersion() string { return t.serverVersions.system }

// VersionInfo is the last version_info of a server of the state of the world, else "". It is "" too
// while something is held: clients are not shown what it stands for (SUR-3).
func (t *Table) VersionInfo() string {
	if t.upstream.held.any() {
		return ""
	}
	return t.serverVersions.info
}

// VersionTrusted reports whether VersionInfo stands for the table's content only, as far as was
// seen lately (ACK-4).
func (t *Table) VersionTrusted() bool { return t.serverVersions.trusted() }

// AliasesOf returns the entries that a resource serves under its aliases (RES-10).
func (t *Table) AliasesOf(key string) []*Entry { return t.aliases.of(key) }

// HasAliases reports whether a resource had an alias so far: a client may be sent a resource
// for several of its names.
func (t *Table) HasAliases() bool { return t.aliases.used() }

// HasAnswers reports whether the server answered that a name stands for nothing (RES-16): a
// client may be sent one answer for several of its names.
func (t *Table) HasAnswers() bool { return t.absences.any() }

// HasTTLs reports whether a resource has or had a ttl.
func (t *Table) HasTTLs() bool { return t.lifetimes.any() }

// Key is "*", or the canonical glob.
func (c *Collection) Key() string { return c.key }

// Table is the table that the collection is of.
func (c *Collection) Table() *Table { return c.table }

// Len is the number of members.
func (c *Collection) Len() int { return c.log.live.len }

// First is the member that changed least recently, nil if there is none. [Entry.Next] leads
// on from it.
func (c *Collection) First() *Entry { return c.log.live.head }

// Last is the member that changed last, nil if there is none.
func (c *Collection) Last() *Entry { return c.log.live.tail }

// After is the first member that changed after a revision, nil if none did.
func (c *Collection) After(revision uint64) *Entry { return c.log.live.after(revision, nil, c) }

// RemovedAfter is the first tombstone after a revision, nil if there is none.
func (c *Collection) RemovedAfter(revision uint64) *Entry {
	return c.log.tombstones.after(revision, nil, c)
}

// LastRemoved is the last tombstone, nil if there is none.
func (c *Collection) LastRemoved() *Entry { return c.log.tombstones.tail }

// Floor is the revision of the youngest tombstone that was discarded before all clients were told.
func (c *Collection) Floor() uint64 { return c.log.floor }

// Changes is the number of changes so far.
func (c *Collection) Changes() uint64 { return c.log.changes }

// Digest is the sum of the members' digests (ACK-4).
func (c *Collection) Digest() digest.Sum { return c.sum }

// Synced reports whether all members that the server has are here, so that anything else does
// not exist.
func (c *Collection) Synced() bool { return c.quiet.synced }

// Overdue reports whether the server was asked for the collection long ago, and has not
// answered on the present stream.
func (c *Collection) Overdue() bool { return c.quiet.overdue }

// ErrorsAfter is the first error of the collection, or of a name in it, after a revision
// (ERR-1); nil for none.
func (c *Collection) ErrorsAfter(revision uint64) *LoggedError { return c.errors.after(revision) }

// Heartbeats are those of the members.
func (c *Collection) Heartbeats() *Heartbeats { return &c.heartbeats }

// Number is the revision at which the error came.
func (e *LoggedError) Number() uint64 { return e.number }

// Key is that of the name of which the error is, or of the collection.
func (e *LoggedError) Key() string { return e.key }

// Err is the error.
func (e *LoggedError) Err() *wire.ResourceError { return e.err }

// VersionOf is the version of resources with a digest. The scope is a part of the digest; the
// empty list has the same one in every scope. The last system_version_info of a table, if it is
// not nil and its server is incremental, stands before it for people to read (ACK-4).
func (s *Store) VersionOf(total digest.Sum, system *Table) string {
	if s.source.Scope != "" && total != (digest.Sum{}) {
		total = digest.Of("scope", s.source.Scope, total.String())
	}
	if system == nil {
		return total.String()
	}
	return total.Behind(system.serverVersions.label)
}

// Resolved reports whether the relay itself fills the store (Source.Resolved).
func (s *Store) Resolved() bool { return s.source.Resolved }

// Rejections are those of the table's content.
func (t *Table) Rejections() *Rejections { return &t.rejections }

// Withholds reports whether clients are not told the server's last word of something, as the guard or an
// operator decided (SUR-3, GATE-4).
func (t *Table) Withholds() bool {
	return t.upstream.held.shown() || t.upstream.held.frozen() && t.upstream.held.any()
}
