package upstream

import "time"

// State is the state of a session.
type State string

// The states of a session.
const (
	// StateIdle: nothing is wanted, or nobody waits for what is (UPS-2); no stream is
	// open.
	StateIdle State = "idle"
	// StateWaiting: something is wanted, and the session is not run yet, because it is others' turn (LIM-2). No session
	// says so of itself.
	StateWaiting State = "waiting"
	// StateConnecting: something is wanted, and what is cached may be getting old
	// (OPS-1).
	StateConnecting State = "connecting"
	// StateConnected: every stream that is wanted is open, and has been answered
	// or has stood for ten seconds with something asked for (a server has nothing
	// to say to a stream that resumed and missed nothing). Streams of one type that
	// the server refuses do not count beside others.
	StateConnected State = "connected"
)

// Freshness says how old the resources of a session may be.
type Freshness struct {
	LastResponse time.Time // zero before the first
	// Stale is since when the session may have missed changes: from the last answer on, if
	// it was connected before. Zero unless it is connecting.
	Stale time.Time
	// Connected reports whether the session was connected at any time.
	Connected bool
}

// Status is a session as it is at one moment.
type Status struct {
	Upstream, Scope string
	State           State
	Since           time.Time // of State
	Endpoint        string    // in use, or tried next
	Streams         int       // open now

	Freshness     Freshness
	LastError     *ConnectionError
	LastRejection *RejectedError

	// Refused are the types that stay unanswered because the server ended a stream on which they were new, or
	// ends their own streams, and what it said. They are asked for again beside the other streams, at growing intervals.
	Refused map[string]string
	// Unavailable are the wanted types, sorted, that have no service of their own, so
	// that a control plane with one stream per type cannot be asked for them.
	Unavailable []string
	// Unanswered are the types, sorted, whose wildcard the server has not answered since it was first asked (SUB-14).
	Unanswered []string

	// Counts since the session began.
	Opened, Lost    uint64 // streams; Lost without those that the session itself ended
	Requests        uint64 // written, answers included
	Responses       uint64
	Acks, Nacks     uint64
	EndpointChanges uint64
}

// Replica is one server of an upstream.
type Replica struct {
	Endpoint         string    // as Status has it: with its address, if its host is a name
	Priority         int       // 0 is the first
	Spare            bool      // an address of the other IP version than those in use
	UnreachableSince time.Time // when it was last tried in vain; zero if it was reached since
	SilentSince      time.Time // since when it takes streams and answers nothing (SUR-2); zero if it answers
	Answered         time.Time // when it last answered; zero before the first time
}

// standing is the weight of a line in the State of its session.
type standing struct {
	aside   bool // not wanted or not waited for, so that the rest does not matter
	refused bool // the server may not serve the type
	good    bool
}

// stateOf is the State of a session with these lines.
func stateOf[L interface{ standing() standing }](lines []L) State {
	state, refused := StateIdle, false
	for _, l := range lines {
		switch is := l.standing(); {
		case is.aside:
		case is.refused:
			refused = true
		case !is.good:
			state = StateConnecting
		case state == StateIdle:
			state = StateConnected
		}
	}
	if refused && state == StateIdle {
		return StateConnecting
	}
	return state
}
