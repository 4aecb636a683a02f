package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/smallmap"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// heldNames are the versions that a client said it holds of names, by key, until the name is
// answered (RES-11).
type heldNames struct {
	versions map[string]string
	at       time.Time // when the client said what it holds; zero if it did not
}

// set records a version. "" is a version that no content has.
func (h *heldNames) set(key, version string) {
	if h.versions == nil {
		h.versions = make(map[string]string)
	}
	h.versions[key] = version
}

// drop forgets the version of a name.
func (h *heldNames) drop(key string) { h.versions = smallmap.Without(h.versions, key) }

// doubt records that the client holds the names in unknown versions.
func (h *heldNames) doubt() {
	for key := range h.versions {
		h.versions[key] = ""
	}
}

// doubtMembers does so for the names that would be members of a glob.
func (h *heldNames) doubtMembers(glob *cache.Collection) {
	for key := range h.versions {
		if keyer.GlobOf(key) == glob.Key() {
			h.versions[key] = ""
		}
	}
}

// answers are the names, by key, that a collection has to answer once, in place of a name
// subscription that ended (SUB-8).
type answers map[string]cache.Name

// owe records that the client is to be told what a collection that it follows holds under a
// name.
func (a *answers) owe(n cache.Name) {
	if *a == nil {
		*a = make(answers)
	}
	(*a)[n.Key] = n
}

// drop records that nothing is owed for a key any more.
func (a *answers) drop(key string) {
	if *a != nil {
		*a = smallmap.Without(*a, key)
	}
}
