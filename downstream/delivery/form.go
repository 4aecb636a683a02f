package delivery

import "time"

// Form is how a client is told of changes. The zero value is the incremental one.
type Form struct {
	// TTL says that the client can do resource ttl: it is sent ttls and heartbeats, and drops
	// by itself what expires (TTL-1, TTL-2). In the state of the world a resource with a ttl goes
	// in a Resource, whatever Wrapped says.
	TTL bool
	// State is the state-of-the-world form: whole lists of full-state types (RES-2), and of
	// others what changed, without removals (RES-3).
	State bool
	// Wrapped has all resources sent in a Resource in that form, with their name and version: only
	// for clients that announce that they know it (RES-13).
	Wrapped bool
	// Relay says that the client is a relay. Its own clients may hold anything, although it
	// presents nothing. So it is sent no list that lacks what may exist (RES-2).
	Relay bool
}

// renewsWhole reports whether TTLs are renewed with whole resources: the state of the world has
// no heartbeats (TTL-1).
func (f Form) renewsWhole() bool { return f.State && f.TTL }

// Pace says how fast a client takes what it lacks.
type Pace struct {
	// Acks says which acknowledgements of a type are outstanding. It is called under a store's
	// lock.
	Acks func(typeURL string) Acks
	// Size bounds the bytes of a batch; a batch holds at least one resource. Parts bounds the
	// batches of one Collect in each store.
	Size, Parts int

	// RemovalWait is how long removals of what others refer to wait after the server sent
	// them (ADS-4). WarmWait bounds how long listeners and routes wait for the endpoints of new
	// clusters (WARM-4). ListWait bounds how long later types wait for a list that is not
	// complete (RES-2), and ListHold how long that waits itself (ABS-3). Zero is no wait.
	RemovalWait, WarmWait, ListWait, ListHold time.Duration

	Apart *Apart // nil: the client came back on this stream alone, or long ago
}

// Apart is until when removals, and listeners and routes, wait for what a client that came back is sent on its other
// streams (WARM-4); zero: they do not.
type Apart struct{ Removals, Followers time.Time }

// Acks says which acknowledgements of a type a client owes.
type Acks uint8

const (
	// Acknowledged says that the client owes none.
	Acknowledged Acks = iota
	// Overdue says that the client owes one, and that its next response does not wait for that
	// any longer (ADS-2).
	Overdue
	// Awaited says that the type's next response waits for an acknowledgement.
	Awaited
)

// Outlook is what a Collect leaves.
type Outlook struct {
	More bool      // something is left that can be sent now
	Next time.Time // when something may go out that waits for its time; zero: nothing does
}
