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

	system string         // the last system_version_info
	label  string         // of it, before digests, for people to read; "" with state
	info   string         // version_info of the last response, to the letter; "" if there was none
	past   digest.History // of info and sum
	sum    uint64         // hash of what the table holds; zero without state
}

func newServerVersions(seed maphash.Seed, state bool) serverVersions {
	return serverVersions{hasher: digest.NewHasher(seed), state: state}
}

// contentOf hashes a resource.
func (s *serverVersions) contentOf(r *wire.Resource) digest.Content {
	return s.hasher.Content(r.Version, r.Raw())
}

// remember notes the content of e before it changes.
func (s *serverVersions) remember(e *Entry) {
	if e.res.Version == "" {
		return // its version is a digest, which says what it holds
	}
	e.rememberContent(s.contentOf(e.res))
}

// rememberContent notes a content of e before it changes.
func (e *Entry) rememberContent(c digest.Content) {
	if e.past == nil {
		e.past = new(digest.History)
	}
	e.past.Note(c)
}

// reused reports whether the version of r stood for other content in e before.
func (s *serverVersions) reused(e *Entry, r *wire.Resource) bool {
	if e.past == nil || r.Version == "" {
		return false
	}
	return e.past.Contradicts(s.contentOf(r))
}

// add takes e into the hash of the table's content.
func (s *serverVersions) add(e *Entry) {
	if s.state {
		s.sum += s.part(e)
	}
}

// leave takes e out of the hash of the table's content. It is called before the content of e
// changes or goes.
func (s *serverVersions) leave(e *Entry) {
	if s.state {
		s.sum -= s.part(e)
	}
}

// part is e's part of the hash of the table's content.
func (s *serverVersions) part(e *Entry) uint64 {
	return s.hasher.Member(e.key, s.hasher.Bytes(e.res.Raw()))
}

// note records that info stands for the table's present content.
func (s *serverVersions) note() {
	if now := s.now(); !s.past.Has(now) {
		s.past.Note(now)
	}
}

// noteSystem records the server's system_version_info, if it gives one.
func (s *serverVersions) noteSystem(info string) {
	if info == "" || info == s.system {
		return
	}
	s.system = info
	if !s.state {
		s.label = digest.Label(info)
	}
}

// now is the version_info that clients are shown, with the content that it stands for.
func (s *serverVersions) now() digest.Content {
	return digest.Content{Version: s.hasher.Version(s.info), Bytes: s.sum}
}

// trusted reports whether info stands for the table's content, and for no other that was seen
// lately. Only then may a client skip anything because of it (ACK-4, ACK-5).
func (s *serverVersions) trusted() bool { return s.info != "" && !s.past.Contradicts(s.now()) }

// check verifies the hash of the table's content.
func (s *serverVersions) check(c *Checker, entries map[string]*Entry) {
	is := serverVersions{hasher: s.hasher, state: s.state}
	for _, e := range entries {
		if e.Exists() {
			is.add(e)
		}
	}
	c.That(s.sum == is.sum, "the hash of what is held is %x, should be %x", s.sum, is.sum)
}

// Version is the version that clients are shown: the server's, or a digest of the content if the
// server gave none (ACK-4, RES-11).
func (e *Entry) Version() string {
	return e.res.Shown()
}

// HoldsVersion reports whether a client that lists v has this content.
func (e *Entry) HoldsVersion(v string) bool {
	return v != "" && !e.marks.ReusedVersion && v == e.Version()
}

// resumeVersion is the version that the relay presents upstream (RES-12). A version that does not
// stand for one content must not make the server skip anything (ACK-4): no content of a server
// that gives versions has "", and none of a server that gives none has a digest.
func (e *Entry) resumeVersion() string {
	if e.marks.ReusedVersion {
		return ""
	}
	return e.Version()
}
