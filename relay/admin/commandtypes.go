package admin

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// Command is what an operator asks a relay to do, in JSON (POST /hold, /release, /rollback, /reload, /passthrough/on and /passthrough/off). What is
// left out selects everything.
type Command struct {
	Upstream string   `json:"upstream,omitempty"`
	Scope    *string  `json:"scope,omitempty"` // "": the scope of xdstp names
	Types    []string `json:"types,omitempty"` // short names or type URLs
	For      string   `json:"for,omitempty"`   // of hold: a duration; "": until it is released
	Guard    bool     `json:"guard,omitempty"` // of release: only what the guard holds
	// Future says that the upstream, scope or types may come later. Without it a command that is
	// about nothing that there is, is a typing mistake.
	Future bool `json:"future,omitempty"`

	// Of reload: the configuration is taken however many clients it refuses, or it is not taken, and the relay says what it would do.
	Yes    bool `json:"yes,omitempty"`
	DryRun bool `json:"dry_run,omitempty"`

	// Of rollback: the number of a generation, if one scope is selected, or a time.
	Generation *uint64   `json:"generation,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// Done is what became of a command.
type Done struct {
	Scopes   []DoneScope `json:"scopes"`             // those that there are, and that it was about
	Nothing  bool        `json:"nothing,omitempty"`  // of release: nothing was held; of passthrough: it is so already
	Streams  int         `json:"streams,omitempty"`  // of passthrough: of clients that connect again
	Warnings []string    `json:"warnings,omitempty"` // what the operator should know
	Foreseen *Foreseen   `json:"foreseen,omitempty"` // of reload with dry_run
}

// Foreseen is what a reload would do.
type Foreseen struct {
	Changed []string `json:"changed"`           // keys that would change
	Waiting []string `json:"waiting"`           // keys that would change after a restart only
	Clients int      `json:"clients"`           // that are served now
	Moved   Affected `json:"moved"`             // clients that would have to connect again
	Refused Affected `json:"refused"`           // clients that would not be served any more
	Error   string   `json:"error,omitempty"`   // why the relay would not take the configuration
	Unknown int      `json:"unknown,omitempty"` // streams that the relay could not look at: their clients do not read
}

// Affected are clients to which a reload would do something.
type Affected struct {
	Clients int      `json:"clients"`
	Some    []string `json:"some,omitempty"` // the first of them, and why
}

// DoneScope is what a command did in one scope.
type DoneScope struct {
	Upstream string `json:"upstream"`
	Scope    string `json:"scope"`
	Released int    `json:"released,omitempty"` // names of which clients are told what was held
	// Of rollback.
	Generation uint64 `json:"generation,omitempty"` // that clients have now
	Changed    int    `json:"changed,omitempty"`    // names that changed for that
	Error      string `json:"error,omitempty"`      // why it was not done in this scope
}

// Totals adds up what a command did in all scopes, and in how many it was not done.
func (d *Done) Totals() (released, changed, failed int) {
	for _, s := range d.Scopes {
		released, changed = released+s.Released, changed+s.Changed
		if s.Error != "" {
			failed++
		}
	}
	return released, changed, failed
}

// WrongError is that a command, or a query, is wrong.
type WrongError struct{ reason string }

func (e *WrongError) Error() string { return e.reason }

// Wrong makes a WrongError.
func Wrong(format string, args ...any) error {
	return &WrongError{fmt.Sprintf(format, args...)}
}

// HeldPage is /held.
type HeldPage struct {
	Orders []OrderView `json:"orders"` // of operators
	Held   []HeldView  `json:"held"`
}

// OrderView is an order of an operator that is in force. What is empty is about everything.
type OrderView struct {
	Upstream  string    `json:"upstream,omitempty"`
	Scope     *string   `json:"scope,omitempty"`
	TypeURL   string    `json:"type_url,omitempty"`
	Held      bool      `json:"held"` // false: an exception from an order before it
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Endpoints bool      `json:"endpoints_flow,omitempty"` // all but endpoints
}

// HeldView is what is held of one type in one scope.
type HeldView struct {
	Upstream string     `json:"upstream"`
	Scope    string     `json:"scope"`
	TypeURL  string     `json:"type_url"`
	Kind     string     `json:"kind"`
	Why      string     `json:"why"` // guard or operator
	Since    time.Time  `json:"since"`
	Until    time.Time  `json:"until,omitzero"` // absent: until an operator releases it
	Removed  int        `json:"removed"`        // names that clients would lose
	Changed  int        `json:"changed"`        // names that would change, or come
	Names    []HeldName `json:"names,omitempty"`
	More     int        `json:"more,omitempty"` // names that are not listed
}

// HeldName is a name of which clients have something else than the control plane sent last.
type HeldName struct {
	Name            string          `json:"name"`
	ReleasedVersion string          `json:"released_version,omitempty"`
	ReceivedVersion string          `json:"received_version,omitempty"`
	Released        json.RawMessage `json:"released,omitempty"` // absent: clients have none
	Received        json.RawMessage `json:"received,omitempty"` // absent: the control plane has none
	Error           string          `json:"error,omitempty"`    // with which the control plane removed it
}

// Generations is the generations of one scope, on /generations.
type Generations struct {
	Upstream    string             `json:"upstream"`
	Scope       string             `json:"scope"`
	Generations []cache.Generation `json:"generations"` // the present one first
}
