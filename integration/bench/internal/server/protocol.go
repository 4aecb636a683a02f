package server

import (
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
)

// Operations of a command.
const (
	opStart  = "start"  // the first one: Kind, and Sets, or Upstream and Access
	opUpdate = "update" // TypeURL, Item, Revision
	opChurn  = "churn"  // TypeURL, Items, Start, Interval, Updates
	opStats  = "stats"
	opFree   = "free"
)

// RelayOptions are what relays differ in.
type RelayOptions struct {
	Upstream  string `json:"upstream,omitempty"`  // the address of the control plane
	Access    int    `json:"access,omitempty"`    // how many access rules there are
	Strangers bool   `json:"strangers,omitempty"` // others than the clients of one fleet come
	// Cache is the folder in which each relay has one of its own for snapshots, which it writes
	// every Every, or as often as it does by default; "": it writes none.
	Cache string        `json:"cache,omitempty"`
	Every time.Duration `json:"every,omitempty"`
}

// command is one line to a child.
type command struct {
	Op string `json:"op"`

	Kind Kind          `json:"kind,omitempty"`
	Sets []content.Set `json:"sets,omitempty"`
	RelayOptions
	Folder string `json:"folder,omitempty"` // an empty one, for certificates. The parent removes it

	TypeURL  string `json:"type_url,omitempty"`
	Item     int    `json:"item,omitempty"`
	Revision int    `json:"revision,omitempty"`

	// Update n, of Updates, is one of item n modulo Items to revision n / Items + 1, and is
	// due n intervals after Start, which is a time of package clock.
	// None is made after Limit.
	Items    int   `json:"items,omitempty"`
	Start    int64 `json:"start,omitempty"`
	Interval int64 `json:"interval,omitempty"` // nanoseconds
	Updates  int   `json:"updates,omitempty"`
	Limit    int64 `json:"limit,omitempty"` // of package clock
}

// reply is the line that answers it.
type reply struct {
	Error  string `json:"error,omitempty"`
	Addr   string `json:"addr,omitempty"`
	REST   string `json:"rest,omitempty"`
	Mutual string `json:"mutual,omitempty"`
	Admin  string `json:"admin,omitempty"`
	Peers  string `json:"peers,omitempty"`
	Began  int64  `json:"began,omitempty"` // when the update began, of package clock
	Ended  int64  `json:"ended,omitempty"` // when the last one was made
	Made   int    `json:"made,omitempty"`  // how many were
	Stats  Stats  `json:"stats,omitzero"`
}

// Stats is what a server counts. The baseline alone counts streams and requests: go-control-plane's
// servers do not, and a relay has its admin port.
type Stats struct {
	Streams   int `json:"streams"`   // opened until now
	Requests  int `json:"requests"`  // acknowledgements included
	Allocated int `json:"allocated"` // bytes that its process allocated until now
}
