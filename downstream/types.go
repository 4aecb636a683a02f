package downstream

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/quota"
)

// Limits of a request's type URLs (OPS-5).
const (
	maxTypeURL = 512
	// maxTypes limits the types of a stream. The API has some dozens.
	maxTypes = 256
)

// typeState is one type's sub-stream (VAR-4).
type typeState struct {
	url       string
	full      bool // state of the world: the client is sent whole lists (RES-2)
	unknown   bool // no discovery service is known of the type
	unnamed   bool // the client subscribes to "*" by naming nothing (SUB-4)
	presented bool // incremental: the client came with versions of what it holds
	rejecting bool // the observer counts the client as one that rejects something of the type
	accepted  bool // the routes know that the client accepted something of the type
	cameBack  bool // the client's other streams know that it came with versions of the type

	flow     flow
	listed   listed // state of the world
	refusals refusals
	later    laterNames // incremental: members of globs that the client presented before it subscribes

	lookedOver, searched int64 // when letGo looked for old names in vain, and for room; 0: never

	systemVersion string     // of the last response
	status        TypeStatus // written under standing.mu
}

// reconsider has the client no longer count as one that rejects something of the type, if the client
// has answered everything and no rejected content is left: the content has changed or is gone, or the
// client does not subscribe to it any more. It reports whether it does.
func (t *typeState) reconsider(s *delivery.Subscriber) bool {
	if !t.rejecting || !t.flow.idle() || s.Rejects(t.url) {
		return false
	}
	t.rejecting = false
	return true
}

// rejecting reports whether the client rejects something.
func (ts *types) rejecting() bool {
	return slices.ContainsFunc(ts.list, func(t *typeState) bool { return t.rejecting })
}

// listed is the state of a type's state-of-the-world requests.
type listed struct {
	named     bool   // a request had a name: from then on an empty one is no wildcard (SUB-2)
	again     bool   // the client asked again while a response was on its way (WARM-1)
	last      uint64 // hash of the names of the last request
	presented string // version_info of the first request (RES-2, ACK-5)
}

// types are the types that a client has named on a stream.
type types struct {
	list       []*typeState               // a few; written under standing.mu
	parent     uint64                     // number of the last response that adds clusters or listeners (WARM-1)
	answerable allowance                  // how many more refused names of the request get an answer (ABS-4)
	part       *quota.Part                // what the names weigh, of all names; nil: little
	total      *int                       // what the names of the request at hand may weigh; nil: no limit
	acks       func(string) delivery.Acks // acksOf, made once
	now        time.Time                  // of the delivery
	wait       time.Duration              // AckWait of the delivery
}

// of returns the state of a type; nil if the client has not named it.
func (ts *types) of(url string) *typeState {
	for _, t := range ts.list {
		if t.url == url {
			return t
		}
	}
	return nil
}

// subscriptions returns how many names the client subscribes to.
func (ts *types) subscriptions() (n int) {
	for _, t := range ts.list {
		n += t.status.Subscriptions
	}
	return n
}

// remembered returns how many refused names the relay remembers, and how many bytes they have.
func (ts *types) remembered() (names, bytes int) {
	for _, t := range ts.list {
		names += len(t.refusals.names)
		bytes += t.refusals.bytes
	}
	return names, bytes
}

// presented returns how many names the client presented of globs that it may subscribe to later, and how many bytes
// they have.
func (ts *types) presented() (names, bytes int) {
	for _, t := range ts.list {
		names += len(t.later.names)
		bytes += t.later.bytes
	}
	return names, bytes
}

// acksOf says which acknowledgements of a type the client owes.
func (ts *types) acksOf(url string) delivery.Acks {
	if t := ts.of(url); t != nil {
		return t.flow.acks(ts.now, ts.wait)
	}
	return delivery.Acknowledged
}

// patience returns when the first type's next response does not wait for an acknowledgement any
// longer; zero if none waits.
func (ts *types) patience() (first time.Time) {
	for _, t := range ts.list {
		if t.flow.acks(ts.now, ts.wait) == delivery.Awaited {
			first = notify.Earlier(first, t.flow.patience(ts.wait))
		}
	}
	return first
}
