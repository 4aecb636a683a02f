package relay

import (
	"hash/maphash"
	"sync"

	"github.com/xdsrelay/xdsrelay/internal/quota"
)

// lastScopes remember in which scope a client accepted a type last. Servers of two scopes may use the same
// versions for other contents: when the client's node leads elsewhere, the versions that it presents there
// say nothing (ACK-4). A client that is not remembered is believed, as it may come from another replica.
// The memory is bounded: later clients replace earlier ones.
type lastScopes struct {
	seed maphash.Seed

	mu  sync.Mutex
	all [4096][scopesInSet]lastScope // guarded by mu; by the hash of the client, the last to be noted first
}

// scopesInSet is how many clients with one place are remembered.
const scopesInSet = 8

// lastScope is a client with a type, and the scope where it accepted that: hashes. A wrong one costs a client
// what it has once more, at the worst.
type lastScope struct{ client, scope uint32 }

// visitor is a client that comes for a type. Clients with one address that have one node id are one.
type visitor struct {
	from          quota.Client
	node, typeURL string
}

func newLastScopes() *lastScopes { return &lastScopes{seed: maphash.MakeSeed()} }

// of returns the set of a client, and its hash.
func (o *lastScopes) of(v visitor) (*[scopesInSet]lastScope, uint32) {
	h := maphash.Comparable(o.seed, v)
	return &o.all[h%uint64(len(o.all))], uint32(h>>32) | 1 // none has the zero value
}

// scope hashes what tells the scope of a session from others.
func (o *lastScopes) scope(key sessionKey) uint32 {
	key.of = nil // an upstream with other settings
	return uint32(maphash.Comparable(o.seed, key))
}

// note remembers that a client accepted content of a session.
func (o *lastScopes) note(v visitor, key sessionKey) {
	set, client := o.of(v)
	is := lastScope{client, o.scope(key)}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range set {
		if set[i].client == client {
			set[i] = is
			return
		}
	}
	copy(set[1:], set[:])
	set[0] = is
}

// elsewhere reports whether a client accepted the type in another session last.
func (o *lastScopes) elsewhere(v visitor, key sessionKey) bool {
	set, client := o.of(v)
	scope := o.scope(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range set {
		if set[i].client == client {
			return set[i].scope != scope
		}
	}
	return false
}
