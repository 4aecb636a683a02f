package cache

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A client that subscribes by an alias knows the resource by its own name, and says that it
// holds that when it comes back (RES-10). The relay knows what the name stands for once the
// server has answered the alias.

// presentAlias compares the version of a resource that the client does not name with what
// its aliases stand for.
func (w *watch) presentAlias(it *wire.VersionWalk, begun, distrust bool) {
	t := w.client.store.tables[tableKey{w.typeURL, byName}]
	if t == nil {
		return
	}
	for _, e := range t.aliases.of(it.NameString()) {
		for sub := range w.subsOf(e.key) {
			w.presentName(sub, it.Version, begun, distrust)
		}
	}
}

// hasByAlias reports whether the client has a resource by an alias, which its own
// subscription tells about.
func (w *watch) hasByAlias(key string) bool {
	t := w.client.store.tables[tableKey{w.typeURL, byName}]
	return t != nil && slices.ContainsFunc(t.aliases.of(key), func(e *entry) bool { return w.named(e.key) })
}

// mayHaveByAlias reports whether a resource of which the wildcard knows nothing may yet be
// what the client has by an alias, since the server has not answered all its names. It is
// virtual hosts that have aliases.
func (w *watch) mayHaveByAlias() bool {
	if w.rank != RankVirtualHost {
		return false
	}
	for sub := range w.names.all() {
		if sub.entry.open() {
			return true
		}
	}
	return false
}

// claimedByAlias gives the version of what an alias stands for that the client claims to
// hold.
func (w *watch) claimedByAlias(e *entry) (version string, claimed bool) {
	if w.wildcard == nil || !e.alias {
		return "", false
	}
	return w.wildcard.versions.get(e.servedName())
}

// comparedByAlias notes that the client knows what became of that.
func (w *watch) comparedByAlias(e *entry) {
	if w.wildcard != nil && e.alias && e.there() {
		w.wildcard.compared(e.servedName())
	}
}
