package cache

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A server can forbid the relay to keep a resource (cache_control.do_not_cache, TTL-5). The
// relay hands such content over to the clients that subscribe when it comes. The bytes wait
// with each client that was not sent them yet, and nowhere else. The entry only remembers
// hashes, so that the same content is not sent twice. For a client that subscribes later
// the relay asks again: it unsubscribes from a name and subscribes anew. No single member of
// a collection can be asked for: there the stream begins anew, at most once a minute if clients share it, and
// does not present the resources that the relay does not have.
//
// A list of a full-state type holds everything whenever anything changes (RES-2). While a
// client is sent such lists they keep the bytes. No other client is served from them.

// transientContent is an entry's memory of content that is not kept.
type transientContent struct {
	what    digest.Content // hashed
	name    string         // as the server spelled it
	version string         // as clients are shown it
	list    *wire.Resource // for lists, while a client is sent some that hold the entry
	renew   *wire.Resource // for renewals, while a client is renewed with whole resources
}

// newTransient returns the memory of a resource, without its bytes.
func newTransient(r *wire.Resource, what digest.Content) *transientContent {
	return &transientContent{what: what, name: strings.Clone(r.Name), version: strings.Clone(r.Shown())}
}
