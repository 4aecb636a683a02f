package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Source describes the control plane of a store. The zero value is a control plane that speaks
// the incremental protocol on one stream, and no clock runs.
type Source struct {
	// Quiet is the time after a response in which members of a collection may still be on
	// their way: when nothing came for so long, and three times as long as between any two
	// responses before, a collection is complete (RES-2).
	Quiet time.Duration
	// ResumeQuiet is the quiet time after which members that the server did not mention on
	// a resumed stream are gone (RES-14). It is Quiet at least.
	ResumeQuiet time.Duration
	// FullState are the types with complete state-of-the-world responses, received and sent
	// (RES-2, RES-8).
	FullState map[string]bool
	// State says that the source speaks the state of the world: it can remove a
	// resource only by leaving it out.
	State bool
	// PerType says that each type has upstream streams of its own.
	PerType bool
	// Absent is how long the server may leave a name or a collection unanswered on a live
	// stream; 0: for ever. Then the relay does not wait any longer. A name that a source of
	// the state of the world did not answer has an error (RES-7).
	Absent time.Duration
	// Shared are the types whose wildcard and names share a stream (SUB-14).
	Shared map[string]bool
	// Resolved says that the source is the relay itself (ApplyResolved). It is asked for keys
	// with directives (keyer.ResolvedKey), and says when a collection is complete.
	Resolved bool
	// Scope is the scope of the contents, in all replicas alike. It takes part in digests of
	// several resources, since another scope may have other contents under the same names
	// and versions (ACK-4). "" for names that mean the same to all clients.
	Scope string
	// Speaks reports whether the server may send xdstp names of an authority for "*" (LOC-3).
	// Nil: of all authorities. It is called under the store's lock.
	Speaks func(authority string) bool
	// Upstream names the server for the Observer.
	Upstream string
	// Guard says which losses are held (SUR-3).
	Guard hold.Guard
	// Unrecorded reports whether the changes of a type are not remembered (Operator.Rollback): its
	// content must not be given again. Nil: none.
	Unrecorded func(typeURL string) bool
	// References says that there is a reader of references (Cache.TakeReferences).
	References bool
	// Peers says that other relays are asked for what is not known while the server is away
	// (Store.Peers).
	Peers bool
}

// longQuiet is the time in which the server must name its members.
func (s *Source) longQuiet() time.Duration { return max(s.Quiet, s.ResumeQuiet) }

// speaks reports whether the server may send a key with "*".
func (s *Source) speaks(key string) bool {
	return s.Speaks == nil || !keyer.IsXDSTP(key) || s.Speaks(keyer.AuthorityOf(key))
}
