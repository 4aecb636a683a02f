package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// schedule decides what of a stream's types goes out, and when: nothing else does. One Collect
// makes it. Each store is surveyed, then the gates of each store are opened, and then steps has
// the order of sending.
type schedule struct {
	Pace

	state  bool         // the client is of the state-of-the-world form
	atOnce bool         // nothing changes between the survey and the rest: one lock is held
	store  *cache.Store // has the clock
	at     time.Time    // when the Collect began, once that was asked for
	next   time.Time    // when something may go out that waits for its time; zero: nothing does

	// In the order in which types are sent. They lie in the schedule itself, which costs no
	// memory of its own, unless there are more than it has room for.
	room [maxTypes]typeDue
	n    int       // of them
	many []typeDue // in place of room
}

// maxTypes is more than the types to which nearly all streams subscribe.
const maxTypes = 8

// begin prepares the schedule of a client of a form, with the clock of a store.
func (s *schedule) begin(pace *Pace, form Form, clock *cache.Store) {
	s.Pace, s.state, s.store = *pace, form.State, clock
}

// types returns what is due, in the order in which types are sent.
func (s *schedule) types() []typeDue {
	if s.many != nil {
		return s.many
	}
	return s.room[:s.n]
}

// now is when the Collect began. Most have nothing that waits for a time, and do not ask.
func (s *schedule) now() time.Time {
	if s.at.IsZero() {
		s.at = s.store.Now()
	}
	return s.at
}

// later records a time at which something may go out.
func (s *schedule) later(at time.Time) { s.next = notify.Earlier(s.next, at) }

// typeDue is what is due of one type, over all places of a stream.
type typeDue struct {
	typeURL string
	rank    xds.Rank
	places  int16 // in which the type is subscribed to
	full    bool  // sent as whole lists

	adds       bool // there is more than removals
	heartbeats bool // ttls that were renewed
	again      bool // something is to be sent again, whatever is not acknowledged (ACK-3)
	removes    bool // removals that may go
	gated      bool // removals of what clusters do not refer to, which may not go yet (ADS-5)
	acks       Acks

	known      bool      // something is known of what the client subscribes to
	held       bool      // it waits for endpoints of new clusters (WARM-4)
	incomplete bool      // a list that would take from the client what it holds (RES-2)
	settles    bool      // of that: the server has begun to send what it lacks
	unknown    bool      // clusters of which nothing is known, of a client that came back (WARM-4)
	since      time.Time // of an incomplete or unknown type: when the client asked
}

// quiet reports whether the client has everything of the type, and acknowledged it.
func (d *typeDue) quiet() bool {
	return !d.adds && !d.again && !d.gated && d.acks == Acknowledged
}

// sends reports whether anything of the type goes out by itself.
func (d *typeDue) sends() bool {
	return d.again || (d.acks != Awaited && !d.held && !d.incomplete && (d.adds || d.removes))
}

// overtaken reports whether additions of the type go out although an acknowledgement is
// awaited: a later type goes out, up to the rank last (ADS-2).
func (d *typeDue) overtaken(last xds.Rank) bool {
	return d.acks == Awaited && d.adds && !d.held && !d.incomplete && d.rank < last
}

// last is the highest rank of a type that goes out by itself, -1 if none does.
func (s *schedule) last() xds.Rank {
	last, types := xds.Rank(-1), s.types()
	for i := range types {
		if types[i].sends() {
			last = types[i].rank
		}
	}
	return last
}

// of finds a type.
func (s *schedule) of(typeURL string) *typeDue {
	types := s.types()
	for i := range types {
		if types[i].typeURL == typeURL {
			return &types[i]
		}
	}
	return nil
}

// entry finds or adds the part of a type.
func (s *schedule) entry(w *typeSub) *typeDue {
	at, types := 0, s.types()
	for at < len(types) && (types[at].rank < w.rank || (types[at].rank == w.rank && types[at].typeURL < w.typeURL)) {
		at++
	}
	if at == len(types) || types[at].typeURL != w.typeURL {
		types = s.grow()
		copy(types[at+1:], types[at:])
		types[at] = typeDue{typeURL: w.typeURL, rank: w.rank, full: w.list.full}
	}
	return &types[at]
}

// grow makes room for one type more, at the end.
func (s *schedule) grow() []typeDue {
	switch {
	case s.many != nil:
		s.many = append(s.many, typeDue{})
	case s.n < maxTypes:
		s.n++
	default:
		s.many = make([]typeDue, maxTypes+1, 2*maxTypes)
		copy(s.many, s.room[:])
	}
	return s.types()
}

// incomplete reports whether a list would take resources from a client that the relay does not
// know yet (lacksHeld). That ends after Pace.ListHold: the control plane must be out of reach
// by then (ABS-3). Restored content is no word of it: before the first word, that takes however
// long it takes (SUR-1), but for a relay, which may have new clients.
func (s *schedule) incomplete(w *typeSub) bool {
	if !w.lacksHeld() {
		return false
	}
	if w.list.presented != "" && w.neverHeard() {
		return true
	}
	end := w.list.begun.Add(s.ListHold)
	if !s.now().Before(end) {
		return false
	}
	s.later(end)
	return true
}

// renewDue reports whether the client is to be told of heartbeats now. In the state of the
// world it waits for its time, unless a resource would run out before that, as the client knows
// it. A client that rejected its last list gets none (TTL-3).
func (s *schedule) renewDue(w *typeSub) bool {
	if !s.state {
		return w.heartbeatsDue()
	}
	if !w.heartbeatsDue() || (w.list.full && (!w.list.listed || w.list.refused)) {
		return false
	}
	if !s.now().Before(w.renewals.next) || w.runsOut(w.renewals.next) {
		return true
	}
	s.later(w.renewals.next)
	return false
}

// awaitsClusters returns until when listeners and routes wait for word of the clusters of a client that came back; zero: they
// do not.
func (s *schedule) awaitsClusters() (end time.Time) {
	if s.Apart != nil {
		end = s.Apart.Followers
	}
	types := s.types()
	for i := range types {
		if types[i].unknown {
			end = notify.Later(end, types[i].since.Add(s.WarmWait))
		}
	}
	return end
}

// waitForEndpoints makes listeners and routes wait for the endpoints of new clusters (WARM-4).
func (s *schedule) waitForEndpoints(of *warming) {
	end := s.awaitsClusters()
	if len(of.clusters) > 0 {
		end = notify.Later(end, of.since.Add(s.WarmWait))
	}
	if end.IsZero() {
		return
	}
	if !s.now().Before(end) {
		of.clusters = nil
		return
	}
	s.later(end)
	types := s.types()
	for i := range types {
		types[i].held = types[i].rank.FollowsClusters()
	}
}

// action is what a delivery does with a type.
type action uint8

const (
	sendRenewals action = iota // state of the world: on their own, before anything else
	sendAgain                  // what goes once more (ACK-3)
	sendAdditions
	sendChanges   // state of the world: the same without heartbeats, with the errors of what was removed
	sendOvertaken // additions of a type whose acknowledgement is awaited, before a later type (ADS-2)
	sendRemovals
	sendLastRemovals // removals that wait for later types
	sendList
)

// step is one such action.
type step struct {
	typeURL string
	what    action
	places  int16 // of the type
	adds    bool  // there is more than removals
}

// steps appends the steps of a Collect, in their order, to steps. more reports that another
// Collect has something to send at once.
func (s *schedule) steps(steps []step) (_ []step, more bool) {
	s.keepUnknown()
	s.waitForLists()
	last, types := s.last(), s.types()
	if s.WarmWait > 0 {
		types = upToClusters(types, last)
	}
	var room [4]step
	removals := room[:0]
	for i := range types {
		d := &types[i]
		awaited := d.acks == Awaited
		if d.heartbeats && !awaited && s.state {
			steps = append(steps, d.step(sendRenewals))
		}
		switch {
		case d.held, d.incomplete:
		case d.overtaken(last):
			steps = append(steps, d.step(s.additions(d, sendOvertaken)))
		case awaited:
		case d.full && (d.adds || d.removes):
			steps = append(steps, d.step(sendList))
		case d.full:
		case d.adds, d.removes, d.heartbeats && !s.state:
			steps = append(steps, d.step(s.additions(d, sendAdditions)))
			switch {
			case !d.removes:
			case d.rank.Waits() && (len(removals) > 0 || anyDue(types[i+1:])):
				removals = append(removals, d.step(sendLastRemovals))
			default:
				steps = append(steps, d.step(sendRemovals))
			}
		}
		if d.again {
			steps = append(steps, d.step(sendAgain))
		}
	}
	return append(steps, removals...), len(types) < len(s.types())
}

func (d *typeDue) step(what action) step {
	return step{typeURL: d.typeURL, what: what, places: d.places, adds: d.adds}
}

// anyDue reports whether something of some types is to be sent, now or later.
func anyDue(types []typeDue) bool {
	for i := range types {
		if types[i].adds || types[i].removes || types[i].again {
			return true
		}
	}
	return false
}

// additions returns how additions of a type go out, in the incremental form by an action.
func (s *schedule) additions(d *typeDue, incremental action) action {
	switch {
	case d.full:
		return sendList
	case s.state:
		return sendChanges
	}
	return incremental
}

// upToClusters cuts the schedule before listeners and routes while clusters are due: the
// clusters decide whether these wait for endpoints (WARM-4). Listeners and routes go with the
// next Collect.
func upToClusters(types []typeDue, last xds.Rank) []typeDue {
	clusters := false
	for i := range types {
		d := &types[i]
		if d.rank == xds.RankCluster && d.adds && (d.sends() || d.overtaken(last)) {
			clusters = true
		}
		if clusters && d.rank.FollowsClusters() {
			return types[:i]
		}
	}
	return types
}

// keepUnknown holds back lists of which nothing is known in any store: they would delete
// everything (ABS-3).
func (s *schedule) keepUnknown() {
	types := s.types()
	for i := range types {
		types[i].incomplete = types[i].incomplete || (types[i].full && !types[i].known)
	}
}

// waitForLists makes later types wait for an incomplete list, since they may need its resources
// (RES-2). Endpoints and secrets do not wait, and nothing waits for long.
func (s *schedule) waitForLists() {
	var until time.Time
	types := s.types()
	for i := range types {
		d := &types[i]
		if !until.IsZero() && d.rank > xds.RankEndpoint && d.typeURL != xds.SecretType {
			d.held = d.held || d.adds || d.removes
		}
		if !d.incomplete || !d.adds {
			continue
		}
		wait := s.ListWait
		if d.settles {
			wait *= 2 // its quiet time is as long, and begins later
		}
		if end := d.since.Add(wait); s.now().Before(end) {
			until = end
			s.later(end)
		}
	}
}
