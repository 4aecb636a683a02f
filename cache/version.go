package cache

import (
	"hash/maphash"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// historyLen is how many former contents of an entry are remembered. A version
// that comes again later than that is taken for what it says.
const historyLen = 8

// history is what an entry held before: hashes of versions and contents, the
// youngest first. It tells a version that is used again for something else, as by a
// server that counts and was restarted (ACK-4). Each of a million endpoints has one,
// so the hashes are short: a version is suspected by mistake once in 2²⁹ changes, which
// has a resource sent once more, and one that is used again passes once in 2³² times.
type history [historyLen]hashes

// hashes are those of a former, shortened.
type hashes struct{ version, bytes uint32 }

func (f former) short() hashes { return hashes{uint32(f.version), uint32(f.bytes)} }

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
	e.past.note(t.store.cache.contentOf(e.res))
}

func (h *history) note(f former) {
	copy(h[1:], h[:])
	h[0] = f.short()
}

// has reports whether the version stood for just that before.
func (h *history) has(f former) bool { return slices.Contains(h[:], f.short()) }

// contradicts reports whether the version stood for something else before.
func (h *history) contradicts(now former) bool {
	is := now.short()
	for _, was := range h {
		if was.version == is.version && was.bytes != is.bytes {
			return true
		}
	}
	return false
}

// reused reports whether the version of r stood for other content in e before.
func (t *table) reused(e *entry, r *wire.Resource) bool {
	if e.past == nil || r.Version == "" {
		return false
	}
	return e.past.contradicts(t.store.cache.contentOf(r))
}

// version is what clients are shown and skipped by: the server's version, or a
// digest of the content where it gave none (ACK-4, RES-11).
func (e *entry) version() string {
	if e.state == relayed {
		return e.life.passed.version
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

// stateVersion is what a source that speaks the state of the world calls the state
// of a table (ACK-4).
type stateVersion struct {
	info string // version_info of the last response, to the letter
	past history
	sum  uint64 // a hash of what the table holds
}

// tell has the hash of what the table holds take in e, or leave it out again. What was
// relayed counts: the server's version stands for it too, though it is not kept
// (TTL-5), and for less once that has run out (ACK-5).
func (t *table) tell(e *entry, sign int) {
	if !t.store.source.State {
		return
	}
	content := e.life.hash()
	if e.res != nil {
		content = maphash.Bytes(t.store.cache.seed, e.res.Raw())
	}
	member := struct {
		key     string
		content uint64
	}{e.key, content}
	t.stateVersion.sum += uint64(sign) * maphash.Comparable(t.store.cache.seed, member)
}

// noteVersion notes what the server calls what the table holds now.
func (t *table) noteVersion(info string) {
	v := &t.stateVersion
	v.info = info
	if now := t.calls(); !v.past.has(now) {
		v.past.note(now)
	}
}

// calls is the version now shown and what it stands for.
func (t *table) calls() former {
	v := &t.stateVersion
	return former{maphash.String(t.store.cache.seed, v.info), v.sum}
}

// versionInfo is the server's version_info for what the table holds, to the letter;
// "" if no server gave one.
func (t *table) versionInfo() string { return t.stateVersion.info }

// versionTrusted reports whether versionInfo stands for what the table holds and for
// nothing else that was seen lately: only then may it make anybody skip anything
// (ACK-4, ACK-5).
func (t *table) versionTrusted() bool {
	return t.stateVersion.info != "" && !t.stateVersion.past.contradicts(t.calls())
}

func (t *table) checkSum(c *checker) {
	was := t.stateVersion.sum
	t.stateVersion.sum = 0
	for _, e := range t.entries {
		if e.there() {
			t.tell(e, 1)
		}
	}
	c.that(t.stateVersion.sum == was, "the hash of what is held is %x, should be %x", was, t.stateVersion.sum)
	t.stateVersion.sum = was
}
