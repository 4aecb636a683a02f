package admin

import (
	"iter"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// State is what a relay has and does. All of it is copies, which are the caller's. The methods may be
// called from any goroutine.
type State interface {
	About() *About
	// Clients are the streams and the held polls by ID, those of the nodes that of reports; nil: all. The names that are
	// wanted are listed, of those that they subscribe to, or have; nil: none.
	Clients(of func(node string) bool, names delivery.Wanted) []downstream.Status
	// Changes are what changed since a time, as far as the relay remembers, the last first within each scope. Those that are
	// wanted have their payloads; nil: none.
	Changes(since time.Time, payloads delivery.Wanted) *Changes
	// Gone are the streams that ended within an hour, the last ones first.
	Gone() []downstream.Gone
	// Nodes are the nodes of the clients that are there, each with the names of its certificate, once.
	Nodes() iter.Seq[*Recorded]
	Upstreams() []Upstream
	Scopes(ScopeFilter) *Scopes
	// Resources has one element at a time, since a cache may hold a million of them.
	Resources(*ResourceFilter) iter.Seq[*Resource]
	// Held and Generations are about what the selectors of a command select. The error is a [WrongError].
	Held(*Command) (*HeldPage, error)
	Generations(*Command) ([]Generations, error)
	// Passed says which streams are served 1:1, and counts those that the selectors select. The error is a [WrongError].
	Passed(*Command) (*Passthrough, error)
	// Check looks for what is inconsistent in the cache. It locks a store while it looks at that.
	Check() error
}

// Commands change what clients get. An error that is a [WrongError] is the operator's.
type Commands interface {
	Hold(*Command) (*Done, error)
	Release(*Command) (*Done, error)
	Rollback(*Command) (*Done, error)
	// Reload has the relay read its configuration again.
	Reload(*Command) (*Done, error)
	// Passthrough has streams served 1:1, and EndPassthrough ends that.
	Passthrough(*Command) (*Done, error)
	EndPassthrough(*Command) (*Done, error)
}
