package cache

import (
	"hash/maphash"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// historyLen is how many former contents of an entry are remembered. A version
// that comes again later than that is taken for what it says.
const historyLen = 8

// history is what an entry held before: hashes of versions and contents. It
// tells a version that is used again for something else, as by a server that
// counts and was restarted (ACK-4).
type history struct {
	seen [historyLen]former
	next uint8 // where the next one goes
}

// former is a version and what it stood for, hashed.
type former struct{ version, bytes uint64 }

// contentOf hashes a resource.
func (c *Cache) contentOf(r *wire.Resource) former {
	return former{maphash.String(c.seed, r.Version), maphash.Bytes(c.seed, r.Raw())}
}

// remember notes what e holds, before it holds something else.
func (t *table) remember(e *entry) {
	if e.res.Version == "" {
		return // its version is a digest, which says what it holds
	}
	if e.past == nil {
		e.past = new(history)
	}
	h := e.past
	h.seen[h.next] = t.store.cache.contentOf(e.res)
	h.next = (h.next + 1) % historyLen
}

// reused reports whether the version of r stood for other content in e before.
func (t *table) reused(e *entry, r *wire.Resource) bool {
	if e.past == nil || r.Version == "" {
		return false
	}
	now := t.store.cache.contentOf(r)
	for _, was := range e.past.seen {
		if was.version == now.version && was.bytes != now.bytes {
			return true
		}
	}
	return false
}

// version is what clients are shown and skipped by: the server's version, or a
// digest of the content where it gave none (ACK-4, RES-11).
func (e *entry) version() string {
	if e.state == relayed {
		return e.life.passed.version
	}
	return shown(e.res)
}

// shown is version for content that may not be kept.
func shown(r *wire.Resource) string {
	if r.Version == "" {
		return r.Digest()
	}
	return r.Version
}

// holdsVersion reports whether a client that lists v has this content.
func (e *entry) holdsVersion(v string) bool {
	return v != "" && !e.tainted && v == e.version()
}

// resumeVersion is what the server is told that the relay holds (RES-12). A
// version that does not stand for one content must not make it skip anything
// (ACK-4): no content of a server that gives versions has "", and none of a
// server that gives none has a digest.
func (e *entry) resumeVersion() string {
	if e.tainted {
		return ""
	}
	return e.version()
}
