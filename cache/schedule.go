package cache

import "time"

// When something of a type may go out is decided here and nowhere else.

// typeDue is what a stream has to be sent of one type, over all its places in stores.
type typeDue struct {
	typeURL string
	rank    Rank
	places  int16 // in which the type is subscribed to
	full    bool  // sent as whole lists

	adds       bool // there is more than removals
	heartbeats bool // ttls that were renewed
	again      bool // something is to be sent again, whatever is not acknowledged (ACK-3)
	removes    bool // removals that may go
	acks       Acks

	known      bool      // something is known of what the client subscribes to
	incomplete bool      // a list that would take from the client what it holds (RES-2)
	since      time.Time // of that: when the client asked
	held       bool      // it waits for endpoints of new clusters (WARM-4)
}

// quiet reports whether the client has everything of the type, and acknowledged it.
func (d *typeDue) quiet() bool { return !d.adds && !d.again && d.acks == Acknowledged }

// sends reports whether anything of the type goes out by itself.
func (d *typeDue) sends() bool {
	return d.again || (d.acks != Awaited && !d.held && !d.incomplete && (d.adds || d.removes))
}

// overtaken reports whether additions of the type go out although an acknowledgement is
// awaited: a later type goes out, up to the rank last (ADS-2).
func (d *typeDue) overtaken(last Rank) bool {
	return d.acks == Awaited && d.adds && !d.held && !d.incomplete && d.rank < last
}

// schedule is what is due, in the order in which types are sent.
type schedule []typeDue

// last is the highest rank of a type that goes out by itself, -1 if none does.
func (s schedule) last() Rank {
	last := Rank(-1)
	for i := range s {
		if s[i].sends() {
			last = s[i].rank
		}
	}
	return last
}

// of finds a type.
func (s schedule) of(typeURL string) *typeDue {
	for i := range s {
		if s[i].typeURL == typeURL {
			return &s[i]
		}
	}
	return nil
}

// entry finds or makes the part of a type.
func (s schedule) entry(w *watch) (schedule, *typeDue) {
	at := 0
	for at < len(s) && (s[at].rank < w.rank || (s[at].rank == w.rank && s[at].typeURL < w.typeURL)) {
		at++
	}
	if at == len(s) || s[at].typeURL != w.typeURL {
		s = append(s, typeDue{})
		copy(s[at+1:], s[at:])
		s[at] = typeDue{typeURL: w.typeURL, rank: w.rank, full: w.full}
	}
	return s, &s[at]
}

// hold has listeners and routes wait for the endpoints of new clusters (WARM-4).
func (s schedule) hold(held bool) {
	for i := range s {
		s[i].held = held && s[i].rank.followsClusters()
	}
}

// action is what a pass does with a type.
type action uint8

const (
	sendRenewals action = iota // state of the world: on their own, before anything else
	sendAgain                  // what goes once more (ACK-3)
	sendAdditions
	sendOvertaken // additions of a type whose acknowledgement is awaited, before a later type (ADS-2)
	sendRemovals
	sendLastRemovals // removals that wait for later types
	sendList
)

// step is one of them.
type step struct {
	typeURL string
	what    action
	places  int16 // of the type
	adds    bool  // there is more than removals
}

// plan appends the steps of a pass, in their order, to steps. more reports that another
// pass has something to send at once.
func (s schedule) plan(q *question, steps []step) (_ []step, more bool) {
	s.keepUnknown()
	s.waitForLists(q)
	last := s.last()
	if q.WarmWait > 0 {
		s, more = s.upToClusters(last)
	}
	var room [4]step
	removals := room[:0]
	for i := range s {
		d := &s[i]
		awaited := d.acks == Awaited
		if d.heartbeats && !awaited && q.state {
			steps = append(steps, d.step(sendRenewals))
		}
		switch {
		case d.held, d.incomplete:
		case d.overtaken(last):
			steps = append(steps, d.step(d.whole(sendOvertaken)))
		case awaited:
		case d.full && (d.adds || d.removes):
			steps = append(steps, d.step(sendList))
		case d.full:
		case d.adds, d.removes, d.heartbeats && !q.state:
			steps = append(steps, d.step(sendAdditions))
			switch {
			case !d.removes:
			case d.rank.waits() && (len(removals) > 0 || s[i+1:].any()):
				removals = append(removals, d.step(sendLastRemovals))
			default:
				steps = append(steps, d.step(sendRemovals))
			}
		}
		if d.again {
			steps = append(steps, d.step(sendAgain))
		}
	}
	return append(steps, removals...), more
}

func (d *typeDue) step(what action) step {
	return step{typeURL: d.typeURL, what: what, places: d.places, adds: d.adds}
}

// any reports whether there is anything to be sent, now or later.
func (s schedule) any() bool {
	for i := range s {
		if s[i].adds || s[i].removes || s[i].again {
			return true
		}
	}
	return false
}

// whole is what is done with a type that is sent as whole lists, where others are told what
// changed.
func (d *typeDue) whole(otherwise action) action {
	if d.full {
		return sendList
	}
	return otherwise
}

// upToClusters cuts the schedule before listeners and routes while clusters are to be sent:
// what the clusters are decides whether listeners and routes wait for their endpoints
// (WARM-4). They come with the next pass.
func (s schedule) upToClusters(last Rank) (now schedule, more bool) {
	clusters := false
	for i := range s {
		d := &s[i]
		if d.rank == RankCluster && d.adds && (d.sends() || d.overtaken(last)) {
			clusters = true
		}
		if clusters && d.rank.followsClusters() {
			return s[:i], true
		}
	}
	return s, false
}

// keepUnknown keeps lists back of which nothing is known in any store: they would delete
// everything (ABS-3).
func (s schedule) keepUnknown() {
	for i := range s {
		s[i].incomplete = s[i].incomplete || (s[i].full && !s[i].known)
	}
}

// waitForLists has later types wait for a list that is not complete, since they may need
// what is in it (RES-2). Endpoints and secrets do not wait, and nothing waits for long.
func (s schedule) waitForLists(q *question) {
	var until time.Time
	for i := range s {
		d := &s[i]
		if !until.IsZero() && d.rank > RankEndpoint && d.typeURL != secretType {
			d.held = d.held || d.adds || d.removes
		}
		if !d.incomplete || !d.adds {
			continue
		}
		if end := d.since.Add(q.ListWait); q.now().Before(end) {
			until = end
			q.later(end)
		}
	}
}

const secretType = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

// followsClusters reports whether resources of the type lead traffic to clusters.
func (r Rank) followsClusters() bool { return r >= RankListener && r <= RankVirtualHost }
