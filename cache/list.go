package cache

import (
	"hash/maphash"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Chunked reports whether the collection has enough members to keep chunks, and each member
// has one name (RES-10).
func (c *Collection) Chunked() bool {
	return c.log.live.len >= c.table.store.cache.MinChunk && !c.table.aliases.used()
}

// Chunk returns the chunk that begins with e: of members up to a change, of at most so many
// bytes and members.
func (c *Collection) Chunk(e *Entry, upTo uint64, size, members int) (Chunk, bool) {
	c.encoded.chunks.mu.Lock()
	defer c.encoded.chunks.mu.Unlock()
	k, ok := c.encoded.chunks.by[e]
	if ok && k.Last.changed <= upTo && k.Body.Size() <= size && k.Body.Resources() <= members {
		return k, true
	}
	if k = c.gather(e, upTo, size, members); k.Last == nil {
		return Chunk{}, false // e fills a response by itself
	}
	c.encoded.chunks.keep(e, k, 2*c.log.live.len)
	return k, true
}

// gather makes a chunk that begins with e. It ends before a member that some clients are not
// sent just as it is stored.
func (c *Collection) gather(e *Entry, upTo uint64, size, members int) Chunk {
	var resources []*wire.Resource
	k := Chunk{}
	for ; e != nil && e.changed <= upTo && len(resources) < members && c.Plain(e); e = e.next {
		if size -= e.res.Size(); size < 0 {
			break
		}
		resources = append(resources, e.res)
		k.Last = e
	}
	k.Body = wire.Gather(resources)
	return k
}

// Plain reports whether every client that is sent a member is sent it as it is stored.
func (c *Collection) Plain(e *Entry) bool {
	name := e.key
	if c.Wildcard() {
		name = e.Name()
	}
	return e.state == Present && !e.marks.Suspect && !e.marks.Alias && e.extra.life == nil && name == e.res.Name
}

// check verifies that chunks hold the members' content.
func (k *chunks) check(c *Checker, coll *Collection) {
	members := 0
	for e, x := range k.by {
		members += x.Body.Resources()
		now := coll.gather(e, x.Last.changed, x.Body.Size(), x.Body.Resources())
		c.That(e.coll == coll && !e.marks.Tombstone && now.Last == x.Last && now.Body.Shares(x.Body), "%q: a chunk from %q is of something else", coll.key, e.key)
	}
	c.That(members == k.members, "%q: %d members in chunks counted as %d", coll.key, members, k.members)
	c.That(members == 0 || len(coll.followers) > 0, "%q: chunks that nobody needs", coll.key)
}

// List returns all members as an encoded list.
func (c *Collection) List(wrapped bool) *wire.Body {
	c.encoded.lists.mu.Lock()
	defer c.encoded.lists.mu.Unlock()
	place := &c.encoded.lists.bare
	if wrapped {
		place = &c.encoded.lists.wrapped
	}
	if *place != nil {
		return *place
	}
	var b wire.Builder
	for e := c.log.live.head; e != nil; e = e.next {
		switch r := e.res; {
		case r == nil:
		case wrapped:
			b.AddWrapped(r, "")
		default:
			b.AddAny(r)
		}
	}
	*place = b.Body()
	return *place
}

// MaxLooked is how many members are looked at under one lock. Changes wait for it: a million
// small members take many goes.
const MaxLooked = 1 << 15

// VersionSum returns the sum of the versions that a client with all members presents (RES-11). It
// is worked out once for all clients that come before the next change, in several goes if there
// are more than MaxLooked members. looked counts them, over several collections.
func (c *Collection) VersionSum(looked *int) (sum uint64, complete bool) {
	l := &c.encoded.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.summedAt != c.log.changes {
		l.summedAt, l.versions, l.summed = c.log.changes, 0, c.log.live.head
	}
	seed := c.table.store.cache.seed
	for ; l.summed != nil; l.summed = l.summed.next {
		if *looked++; *looked > MaxLooked {
			return 0, false
		}
		l.versions += l.summed.versionPart(seed)
	}
	return l.versions, true
}

// versionPart is the part of the sum that a member has. Some members have a part that no
// client can present, since it is no UTF-8: their version makes no client skip them.
func (e *Entry) versionPart(seed maphash.Seed) uint64 {
	version := e.Version()
	if e.marks.ReusedVersion || version == "" {
		version = "\xff"
	}
	var room [128]byte
	return maphash.Bytes(seed, wire.AppendVersion(room[:0], e.key, version))
}

// check verifies the lists and the sum of a collection. followers is the number of its followers
// of the state of the world.
func (l *lists) check(c *Checker, coll *Collection, followers int) {
	listed, sum := 0, uint64(0)
	summed := l.summedAt == coll.log.changes && l.summed == nil
	for e := coll.log.live.head; e != nil; e = e.next {
		if summed {
			sum += e.versionPart(coll.table.store.cache.seed)
		}
		if e.res != nil {
			listed++
		}
	}
	c.That(!summed || sum == l.versions, "%q: the sum of the versions is %x, found %x", coll.key, l.versions, sum)
	for _, body := range []*wire.Body{l.bare, l.wrapped} {
		c.That(body == nil || (followers > 0 && body.Resources() == listed), "%q: a list that nobody needs, or of other members", coll.key)
	}
}
