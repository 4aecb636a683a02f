package delivery

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A client that subscribes by an alias knows the resource by its own name, and says that it
// holds that when it comes back (RES-10). The relay knows what the name stands for once the
// server has answered the alias.

// hasByAlias reports whether the client has a resource by an alias, which its own subscription
// tells about.
func (w *typeSub) hasByAlias(key string) bool {
	t := w.place.store.FindTable(w.typeURL, cache.ByName)
	return t != nil && slices.ContainsFunc(t.AliasesOf(key), func(e *cache.Entry) bool { return w.subs.names.named(e.Key()) })
}

// heldByAlias returns the version that the client said it holds of the resource that an alias
// stands for.
func (w *typeSub) heldByAlias(e *cache.Entry) (version string, claimed bool) {
	if w.subs.wildcard == nil || !e.Marks().Alias {
		return "", false
	}
	return w.subs.wildcard.held.get(e.ServedName())
}

// comparedByAlias records that the client knows what became of that resource.
func (w *typeSub) comparedByAlias(e *cache.Entry) {
	if w.subs.wildcard != nil && e.Marks().Alias && e.Exists() {
		w.subs.wildcard.compared(e.ServedName())
	}
}
