package admin

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// Upstream is one control plane on /upstreams.
type Upstream struct {
	Name       string           `json:"name"`
	Endpoints  config.Endpoints `json:"endpoints,omitempty"`
	Failures   []upstream.Cause `json:"endpoint_failures,omitempty"` // of those replicas that did not answer when they were last tried
	Path       string           `json:"path,omitempty"`              // of files
	Unusable   []string         `json:"unusable_files,omitempty"`    // as they are now, and why
	Reached    bool             `json:"reached"`                     // at least once
	LastAnswer time.Time        `json:"last_answer,omitzero"`        // of any server, to any scope
	Unanswered time.Time        `json:"unanswered_since,omitzero"`   // when the oldest request was written that a server owes an answer
	Open       time.Time        `json:"open_since,omitzero"`         // when the oldest request was written that nothing followed; a server that does not have what it asks for may be silent
	State      string           `json:"state,omitempty"`             // reached, mute, unreachable, not reached, or what serves in its place: restored, at peers; absent if it is retired
	StateSince time.Time        `json:"state_since,omitzero"`        // unless it is reached
	Cause      string           `json:"cause,omitempty"`             // of the state
	Answers    Answers          `json:"answers,omitzero"`            // within ten minutes
	Required   bool             `json:"required"`                    // readiness waits for it
	Retired    bool             `json:"retired,omitempty"`           // not configured any more, or differently; its streams end with their last clients
	Replicas   []Replica        `json:"replicas,omitempty"`          // the servers, also those of names, by priority
	Loads      *Loads           `json:"load_reports,omitempty"`
	Sessions   []Session        `json:"sessions"`
}

// silentSince is when the oldest request was written since which the control plane has said nothing, to any scope; zero: it
// answers, or nothing is asked.
func (u *Upstream) silentSince() time.Time {
	if since := notify.Earlier(u.Open, u.Unanswered); u.LastAnswer.Before(since) {
		return since
	}
	return time.Time{} // it may have nothing to say of a name
}

// Answers says how long a control plane took to answer requests that presented no version.
type Answers struct {
	Count int     `json:"count"` // at most a hundred
	P50   float64 `json:"p50_seconds"`
	P99   float64 `json:"p99_seconds"`
}

// answersFor is how far back Answers goes.
const answersFor = 10 * time.Minute

// NewAnswers counts the answers of the last ten minutes.
func NewAnswers(took []upstream.Took, now time.Time) (a Answers) {
	var all []float64
	for _, x := range took {
		if now.Sub(x.At) <= answersFor {
			all = append(all, x.For.Seconds())
		}
	}
	slices.Sort(all)
	if a.Count = len(all); a.Count > 0 {
		a.P50, a.P99 = all[(a.Count-1)/2], all[(a.Count-1)*99/100]
	}
	return a
}

// Replica is one server of a control plane.
type Replica struct {
	Endpoint         string    `json:"endpoint"`        // as sessions have it
	Priority         int       `json:"priority"`        // 0 is the first
	Sessions         int       `json:"sessions"`        // that have streams to it
	Spare            bool      `json:"spare,omitempty"` // an address of the other IP version than those in use
	UnreachableSince time.Time `json:"unreachable_since,omitzero"`
	SilentSince      time.Time `json:"silent_since,omitzero"` // takes connections and does not answer
	LastAnswer       time.Time `json:"last_answer,omitzero"`
}

// Loads tells whether load reports flow.
type Loads struct {
	State    string    `json:"state"`              // off, or a loadreport.State
	Clients  int       `json:"clients"`            // that report, or wait for what the control plane wants
	Interval string    `json:"interval,omitempty"` // of their reports; the shortest of all scopes
	LastSent time.Time `json:"last_sent,omitzero"` // to the control plane
}

// Session is one scope's session.
type Session struct {
	Scope           string            `json:"scope"`
	State           string            `json:"state"`
	Since           time.Time         `json:"since"`
	StaleSince      time.Time         `json:"stale_since,omitzero"` // when it may have begun to miss changes
	Endpoint        string            `json:"endpoint"`
	Clients         int               `json:"clients"`
	Streams         int               `json:"streams"`
	StreamsOpened   uint64            `json:"streams_opened"`
	StreamsLost     uint64            `json:"streams_lost"`
	EndpointChanges uint64            `json:"endpoint_changes"`
	Requests        uint64            `json:"requests"`
	Responses       uint64            `json:"responses"`
	Acks            uint64            `json:"acks"`
	Nacks           uint64            `json:"nacks"`
	LastResponse    time.Time         `json:"last_response,omitzero"`
	LastError       string            `json:"last_error,omitempty"`
	LastErrorAt     time.Time         `json:"last_error_at,omitzero"`
	LastRejection   string            `json:"last_rejection,omitempty"`
	LastRejected    time.Time         `json:"last_rejected,omitzero"`
	Refused         map[string]string `json:"refused,omitempty"`       // types that the server ends streams for, and what it said
	Unavailable     []string          `json:"unavailable,omitempty"`   // types that have no service of their own
	Unanswered      []string          `json:"unanswered,omitempty"`    // types whose wildcard the server never answered
	Loads           *Loads            `json:"load_reports,omitempty"`  // nil: no client has reported
	HeldUntil       time.Time         `json:"held_until,omitzero"`     // when clients are told of the losses that tables hold
	Restored        int               `json:"restored,omitempty"`      // resources of an earlier process that the control plane has not confirmed
	RestoredAsOf    time.Time         `json:"restored_as_of,omitzero"` // when they were last known to be current
	Tables          []cache.TypeStats `json:"tables"`
}
