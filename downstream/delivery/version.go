package delivery

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
)

// stateVersion gives the version_info of what a type subscription holds: the server's where that
// speaks the state of the world too, else a digest that is the same for every client with these
// subscriptions, behind the server's system_version_info for people to read (ACK-4).
type stateVersion struct {
	store        *cache.Store
	subs         *subscribed
	whole, named *cache.Table // of "*", and of names and globs; nil for what is not subscribed to
}

func (w *typeSub) version() stateVersion {
	v := stateVersion{store: w.place.store, subs: &w.subs}
	if w.subs.wildcard != nil {
		v.whole = w.subs.wildcard.Collection().Table()
	}
	if w.subs.names.len()+len(w.subs.globs.all) > 0 {
		v.named = w.place.store.FindTable(w.typeURL, cache.ByName)
	}
	return v
}

// with is the version of all this and of something more that a list holds, of which no server
// knows; extra is its sum.
func (v stateVersion) with(extra digest.Sum) string {
	if extra == (digest.Sum{}) {
		if server := v.server(); server != "" {
			return server
		}
	}
	return v.store.VersionOf(v.subs.digest(extra), v.system())
}

// system is the table whose system_version_info stands before the digest, nil for none.
func (v stateVersion) system() *cache.Table {
	switch {
	case v.subs.screen != nil: // it changes with what the client may not know of
		return nil
	case v.whole != nil:
		return v.whole
	}
	return v.named
}

// server is what a source of the state of the world calls what the client's subscriptions hold,
// to the letter; "" if it gave no version, or does not speak so.
func (v stateVersion) server() string {
	switch {
	case v.whole == nil && v.named == nil, v.subs.screen != nil:
		return ""
	case v.named == nil:
		return v.whole.VersionInfo()
	case v.whole == nil:
		return v.named.VersionInfo()
	}
	parts := []string{v.whole.VersionInfo(), v.named.VersionInfo()}
	if slices.Contains(parts, "") {
		return ""
	}
	return digest.Join(parts)
}

// shown reports whether a client presented the version. The label of a digest does not count.
func (v stateVersion) shown(presented string) bool {
	is := v.with(digest.Sum{})
	return presented == is || v.server() == "" && digest.Plain(presented) == digest.Plain(is)
}

// trusted reports whether the version of "*" stands for its content and nothing else. A digest
// always does.
func (v stateVersion) trusted() bool { return v.server() == "" || v.whole.VersionTrusted() }

// StateVersion is the version_info of a response of the state of the world that adds nothing to
// what places in any number of stores hold of a type, and takes nothing from it.
func StateVersion(clients []*Place, typeURL string) string {
	var versions []string
	for _, c := range clients {
		if w := c.find(typeURL); w != nil {
			c.store.View(func() { versions = append(versions, w.version().with(digest.Sum{})) })
		}
	}
	if len(versions) == 0 {
		return cache.EmptyVersion()
	}
	return digest.Join(versions)
}
