package cache

import (
	"hash/maphash"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// serverVersions finds out versions that the server uses again for other content, as a
// server does that counts and was restarted (ACK-4): those of the resources of a table,
// and the version_info of a source that speaks the state of the world, which stands for
// all that the table holds. Guarded by Store.mu.
type serverVersions struct {
	hasher digest.Hasher // immutable
	state  bool          // immutable; the source speaks the state of the world

	info string         // version_info of the last response, to the letter; "" if there was none
	past digest.History // of info and sum
	sum  uint64         // hash of what the table holds; zero without state
}

func newServerVersions(seed maphash.Seed, state bool) serverVersions {
	return serverVersions{hasher: digest.NewHasher(seed), state: state}
}

// contentOf hashes a resource.
func (v *serverVersions) contentOf(r *wire.Resource) digest.Content {
	return v.hasher.Content(r.Version, r.Raw())
}

// remember notes what e holds, before it holds something else.
func (v *serverVersions) remember(e *entry) {
	if e.res.Version == "" {
		return // its version is a digest, which says what it holds
	}
	if e.past == nil {
		e.past = new(digest.History)
	}
	e.past.Note(v.contentOf(e.res))
}

// reused reports whether the version of r stood for other content in e before.
func (v *serverVersions) reused(e *entry, r *wire.Resource) bool {
	if e.past == nil || r.Version == "" {
		return false
	}
	return e.past.Contradicts(v.contentOf(r))
}

// add takes e into the hash of what the table holds. Transient content counts: the server's
// version stands for it too, though it is not kept (TTL-5), and for less once it has run out
// (ACK-5).
func (v *serverVersions) add(e *entry) {
	if v.state {
		v.sum += v.part(e)
	}
}

// leave takes e out of the hash of what the table holds. It is called before the content
// of e changes or goes.
func (v *serverVersions) leave(e *entry) {
	if v.state {
		v.sum -= v.part(e)
	}
}

// part is what e adds to the hash of what the table holds.
func (v *serverVersions) part(e *entry) uint64 {
	content := e.life.hash()
	if e.res != nil {
		content = v.hasher.Bytes(e.res.Raw())
	}
	return v.hasher.Member(e.key, content)
}

// note records the server's version_info for what the table holds now.
func (v *serverVersions) note(info string) {
	v.info = info
	if now := v.now(); !v.past.Has(now) {
		v.past.Note(now)
	}
}

// now is the version_info that clients are shown and what it stands for.
func (v *serverVersions) now() digest.Content {
	return digest.Content{Version: v.hasher.Version(v.info), Bytes: v.sum}
}

// trusted reports whether info stands for what the table holds and for nothing else that
// was seen lately. Only then may a client skip anything because of it (ACK-4, ACK-5).
func (v *serverVersions) trusted() bool { return v.info != "" && !v.past.Contradicts(v.now()) }

// check verifies the hash of what the table holds.
func (v *serverVersions) check(c *checker, entries map[string]*entry) {
	is := serverVersions{hasher: v.hasher, state: v.state}
	for _, e := range entries {
		if e.there() {
			is.add(e)
		}
	}
	c.that(v.sum == is.sum, "the hash of what is held is %x, should be %x", v.sum, is.sum)
}

// version is what clients are shown and skipped by: the server's version, or a
// digest of the content where it gave none (ACK-4, RES-11).
func (e *entry) version() string {
	if e.state == transient {
		return e.life.transient.version
	}
	return shown(e.res)
}

// shown is version for content that may not be kept. It lies in the bytes of that.
func shown(r *wire.Resource) string {
	return r.Shown()
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
