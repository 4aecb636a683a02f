package delivery

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// spelling is a collection as its client spells it.
type spelling struct {
	text     string
	wildcard bool // members go by the server's spelling
	renamed  bool // the text is not canonical: members are respelled (NAME-4)
}

// newSpelling returns the spelling of the collection of a key.
func newSpelling(text, key string) spelling {
	return spelling{text, key == cache.Wildcard, undirected(text, key) != key}
}

// of returns the name under which the client expects a member: in its own spelling of the glob
// (NAME-4), and in the server's spelling for "*".
func (s *spelling) of(e *cache.Entry) string {
	if s.wildcard {
		return e.Name()
	}
	return s.ofKey(e.Key())
}

// ofKey is of for a key that is no member.
func (s *spelling) ofKey(key string) string {
	if !s.renamed {
		return key
	}
	return keyer.Respell(s.text, key)
}

// ofError returns the name under which the client expects an error of a collection: the
// collection's as the client subscribed to it, a member's as the client is sent it (NAME-4).
func (s *spelling) ofError(x *cache.LoggedError, c *cache.Collection) string {
	switch {
	case x.Key() == c.Key():
		return s.text
	case s.wildcard:
		return x.Err().Name
	}
	return s.ofKey(x.Key())
}

// undirected is a client's spelling of a key without directives.
func undirected(spelling, key string) string {
	if keyer.IsXDSTP(spelling) {
		spelling, _, _ = strings.Cut(spelling, "#")
	}
	return intern(spelling, key)
}

// intern returns b if it equals a, so that a's bytes need not be kept.
func intern(a, b string) string {
	if a == b {
		return b
	}
	return a
}
