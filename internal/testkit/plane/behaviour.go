package plane

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Absent is the answer of an incremental stream to a name that does not exist.
type Absent int

const (
	// AbsentSilent answers nothing, as go-control-plane does.
	AbsentSilent Absent = iota
	// AbsentRemoved answers in removed_resources, as the protocol wants it (RES-6).
	AbsentRemoved
	// AbsentUnresolved answers with a Resource without payload, which has the name
	// as its name and as its alias, as on-demand virtual hosts want it (RES-16).
	AbsentUnresolved
)

// Behaviour is how a control plane treats its streams. The zero value sends
// everything at once, in the order that makes before it breaks.
type Behaviour struct {
	// AwaitACK sends nothing more of a type before the client has answered the last
	// response of that type, or has sent another request for it.
	AwaitACK bool
	// Absent is what is said of a name that does not exist, by incremental streams.
	Absent Absent
	// EmptyVersions leaves Resource.version empty.
	EmptyVersions bool
	// DigestVersions makes versions of contents instead of counting changes, as control
	// planes of several replicas do: no version stands for two contents, whatever a plane
	// forgets.
	DigestVersions bool
	// RepeatEndpoints sends the endpoints of each Cluster that was sent again, even
	// if they did not change.
	RepeatEndpoints bool
	// IgnoreRepeats leaves unanswered what asks again for the same: an incremental
	// subscription to a name that the stream has, and a state-of-the-world request that
	// repeats the one before it after Clusters were sent (WARM-1).
	IgnoreRepeats bool
	// HeedVersion leaves a first request of the state of the world unanswered that presents
	// the version that its type has now.
	HeedVersion bool
	// IgnoreVersions has an incremental stream take the versions that a client presents for no more than
	// the names of what it has: all of it is sent, and told as removed if it does not exist.
	IgnoreVersions bool
	// VersionSuffix ends the versions that the plane counts.
	VersionSuffix string
	// Identifier is what incremental responses call the control plane (STR-10).
	Identifier string
	// Wrap wraps all resources of the state of the world (RES-13).
	Wrap bool
	// AllOrNothing has a state-of-the-world stream be told nothing of a type while it asks for a name of it
	// that does not exist, as java-control-plane does.
	AllOrNothing bool
	// Random gives responses any order and any number of parts. Full lists of the state of the world stay whole.
	Random *rand.Rand
	// LongPoll is how long a poll that presents a version waits for something new.
	LongPoll time.Duration
	// RenewWhole renews the ttl of state-of-the-world streams with whole lists: some
	// clients take a list of heartbeats only for an empty one (TTL-1).
	RenewWhole bool
	// PerResponse is the largest number of resources in a response, 0 without limit.
	// Full lists of the state of the world stay whole.
	PerResponse int
	// LegacyWildcard takes nothing for the wildcard but a first request for a type that
	// is empty: "*" is a name like any other (SUB-14).
	LegacyWildcard bool
	// IgnoreNames has an incremental stream that asked for a type as a whole ignore the
	// names that it asks for later.
	IgnoreNames bool
	// OneStream ends a stream of a node that has one already.
	OneStream bool
	// Mute answers nothing at all. Requests are taken and recorded; polls are held.
	Mute bool
	// Delay is the time that a change of a type waits before it goes out.
	Delay map[string]time.Duration
}

// order is the order of types that makes before it breaks.
func order() []string {
	return []string{Cluster, Endpoints, Listener, ScopedRoute, Route, VirtualHost}
}

// GoControlPlane behaves like go-control-plane's linear caches.
func GoControlPlane() Behaviour {
	return Behaviour{AwaitACK: true, IgnoreRepeats: true}
}

// GoControlPlane0103 behaves like go-control-plane before 0.10.4.
func GoControlPlane0103() Behaviour {
	b := GoControlPlane()
	b.LegacyWildcard = true
	return b
}

// Consul behaves like Consul's servers.
func Consul() Behaviour {
	return Behaviour{AwaitACK: true, IgnoreRepeats: true, LegacyWildcard: true, IgnoreNames: true}
}

// Istio behaves like Istio's discovery server: versions are empty, and a pushed
// Cluster is followed by its endpoints.
func Istio() Behaviour {
	return Behaviour{AwaitACK: true, EmptyVersions: true, RepeatEndpoints: true, Absent: AbsentRemoved}
}

// part is how many of n resources go into the next response.
func (b *Behaviour) part(n int) int {
	if b.PerResponse > 0 {
		n = min(n, b.PerResponse)
	}
	if b.Random != nil && n > 0 {
		n = 1 + b.Random.IntN(n)
	}
	return n
}

// shuffle gives resources the order in which they are sent.
func shuffle[T any](b *Behaviour, all []T) {
	if b.Random != nil {
		b.Random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
}

// rank orders types for one pass over a stream; those that are not in order follow.
func rank(typeURL string) int {
	all := order()
	if i := slices.Index(all, typeURL); i >= 0 {
		return i
	}
	return len(all)
}
