package cache

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// aliases are the entries of a table that resources of other names serve, because these
// resources have the entries' names as aliases (RES-10). Guarded by Store.mu.
type aliases struct {
	served map[string][]*Entry // by the key of the resource; nil until a resource had an alias
}

// of returns the entries that a resource serves under its aliases.
func (a *aliases) of(key string) []*Entry { return a.served[key] }

// used reports whether any resource had an alias so far: a client may be sent a resource
// for several of its names then.
func (a *aliases) used() bool { return a.served != nil }

// set records which entries a resource serves under its aliases.
func (a *aliases) set(key string, served []*Entry) {
	if a.served == nil {
		a.served = make(map[string][]*Entry)
	}
	if len(served) == 0 {
		delete(a.served, key)
	} else {
		a.served[key] = served
	}
}

// drop records that the resource that serves e as an alias does so no more, if one does.
// It is called before the content of e changes.
func (a *aliases) drop(e *Entry) {
	if !e.marks.Alias || !e.Exists() {
		return
	}
	key, err := keyer.Key(e.ServedName())
	if err != nil {
		return
	}
	served := a.served[key]
	if i := slices.Index(served, e); i >= 0 {
		served = append(served[:i:i], served[i+1:]...)
	}
	a.set(key, served)
	e.marks.Alias = false
}

// check verifies that served entries exist.
func (a *aliases) check(c *Checker, entries map[string]*Entry) {
	for key, served := range a.served {
		c.That(len(served) > 0, "%q serves no aliases, and is listed", key)
		for _, e := range served {
			c.That(e.marks.Alias && e.Exists() && entries[e.key] == e, "alias %q of %q is broken", e.key, key)
		}
	}
}
