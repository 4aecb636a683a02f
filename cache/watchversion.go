package cache

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache/digest"
)

// MovedDigest is a digest in place of another one, which no client can have from another
// scope: servers of two scopes may use the same versions for other contents (ACK-4).
func MovedDigest(was string) string { return digest.Of("moved", was).String() }

// EmptyVersion is the version_info of a list without resources.
func EmptyVersion() string { return digest.Sum{}.String() }

// version is the version_info of what the client's subscriptions to the type hold:
// the server's where that speaks the state of the world too, else a digest that is the
// same for every client with these subscriptions (ACK-4). extra is the sum of what a
// list holds beyond that, of which no server knows.
func (w *watch) version(extra digest.Sum) string {
	if extra == (digest.Sum{}) {
		if v := w.serverVersion(); v != "" {
			return v
		}
	}
	return w.client.store.named(w.digest(extra))
}

// named is the version of what has a digest, which says of what scope it is. Nothing is
// the same in every scope.
func (s *Store) named(total digest.Sum) string {
	if s.source.Scope != "" && total != (digest.Sum{}) {
		total = digest.Of("scope", s.source.Scope, total.String())
	}
	return total.String()
}

// digest is the sum of what the client's subscriptions to the type hold, and of
// something extra.
func (w *watch) digest(extra digest.Sum) digest.Sum {
	total := w.sum.Plus(extra)
	for _, g := range w.globs {
		total = total.Plus(g.coll.sum)
	}
	if w.wildcard != nil {
		total = total.Plus(w.wildcard.coll.sum)
	}
	return total
}

// serverVersion is what a source of the state of the world calls what the client's
// subscriptions hold, to the letter; "" if it gave no version, or does not speak so.
func (w *watch) serverVersion() string {
	var parts []string
	if w.wildcard != nil {
		parts = append(parts, w.wildcard.coll.table.serverVersions.info)
	}
	if w.names.len()+len(w.globs) > 0 {
		parts = append(parts, w.client.store.tables[tableKey{w.typeURL, byName}].serverVersions.info)
	}
	if len(parts) == 0 || slices.Contains(parts, "") {
		return ""
	}
	return digest.Join(parts)
}

// current reports whether the client showed, when its stream began, the version
// of what its subscription holds now (ACK-5). What it names is sent all the same
// (WARM-2), and before the collection is synced nobody knows what it holds. Of a
// type that is sent by what changed the version says less: a client that has one
// part of a split response knows the version of all.
func (w *watch) current() bool {
	return w.full && w.presented != "" && !w.listed && w.wildcardOnly() && w.wildcard.coll.synced &&
		w.wildcard.coll.transient == 0 && !w.hasTTLs() && w.presented == w.version(digest.Sum{}) && w.trusted()
}

// hasTTLs reports whether what "*" holds has ttls that the client is to be told, or had
// ones that it may have been told.
func (w *watch) hasTTLs() bool { return w.client.form.TTL && w.wildcard.coll.table.lifetimes.any() }

// trusted reports whether the version of "*" stands for what it holds and nothing else.
// A digest always does.
func (w *watch) trusted() bool {
	return w.serverVersion() == "" || w.wildcard.coll.table.serverVersions.trusted()
}

// wildcardOnly reports whether "*" is all that is subscribed to.
func (w *watch) wildcardOnly() bool {
	return w.wildcard != nil && w.names.len()+len(w.globs) == 0
}

// StateVersion is the version_info of a response of the state of the world that adds
// nothing to what places in any number of stores hold of a type, and takes nothing from
// it.
func StateVersion(clients []*Client, typeURL string) string {
	var versions []string
	for _, c := range clients {
		c.store.mu.RLock()
		if w := c.find(typeURL); w != nil {
			versions = append(versions, w.version(digest.Sum{}))
		}
		c.store.mu.RUnlock()
	}
	if len(versions) == 0 {
		return EmptyVersion()
	}
	return digest.Join(versions)
}
