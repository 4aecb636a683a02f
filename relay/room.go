package relay

import (
	"container/heap"
	"fmt"
	"iter"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// errNoRoom says that limits.scopes is reached.
var errNoRoom = fmt.Errorf("%w: limits.scopes is reached: try again later, or another replica", downstream.ErrNoRoom)

// room bounds the sessions of a hub (LIM-1). The hub's lock guards it.
type room struct {
	most  int     // sessions in all; 0: no limit
	share float64 // what part of them the clients of one address or identity may use, while less than a tenth is free
	idle  idle    // those that nobody uses
	used  int     // those that clients use, beside those of all clients
	usage quota.Usage
}

// admit counts a session that is to be used by the first client. It counts for the client that began to
// use it, as long as any client does. A session without clients makes room for others anyway.
func (r *room) admit(who claim, key sessionKey, sessions map[sessionKey]*session) error {
	if key.ofAll() {
		return nil
	}
	// Whether there is room at all is makeRoom's to say.
	n := min(r.used, max(0, r.most-1))
	if r.usage.Admit(r.places(), n, 1, who.from, usersOf(sessions)) != quota.Admitted {
		if who.kind != moved {
			return downstream.ErrShareOfScopes
		}
		r.usage.Add(who.from, 1)
	}
	r.used++
	return nil
}

// left counts a session that no client uses any more.
func (r *room) left(who quota.Client, key sessionKey) {
	if key.ofAll() {
		return
	}
	r.used--
	r.usage.Release(r.places(), r.used, 1, who)
}

func (r *room) places() quota.Limit { return quota.Limit{Most: r.most, Share: r.share} }

// usersOf lists the clients for which sessions count, each with one place.
func usersOf(sessions map[sessionKey]*session) iter.Seq2[quota.Client, int] {
	return func(yield func(quota.Client, int) bool) {
		for key, s := range sessions {
			if s.users > 0 && !key.ofAll() && !yield(s.of, 1) {
				return
			}
		}
	}
}

// seat has a session count for a client that is to use it, if nobody does. One that was discarded does not
// count any more. The caller holds mu.
func (h *hub) seat(who claim, s *session) error {
	if s.users > 0 || s.discarded {
		return nil
	}
	if err := h.room.admit(who, s.key, h.sessions); err != nil {
		return err
	}
	s.of = who.from
	return nil
}

// full reports whether there is no room for a session. A session of xdstp names always has room: the
// configuration decides how many there are, unless they differ by the metadata of clients.
func (r *room) full(key sessionKey, present int) bool {
	return r.most > 0 && present >= r.most && !key.ofAll()
}

// ofAll reports whether a session is shared by all clients.
func (k sessionKey) ofAll() bool { return k.scope == xdstpScope && k.forwarded == "" }

// idle are sessions that nobody uses. The first is the one that was used for the shortest time: who
// invents one node after the other, each for a moment, is to lose what that left before others do.
type idle []*session

// Len implements sort.Interface.
func (s idle) Len() int { return len(s) }

// Less implements sort.Interface.
func (s idle) Less(i, j int) bool { return s[i].used < s[j].used }

// Swap implements sort.Interface.
func (s idle) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].at, s[j].at = i+1, j+1
}

// Push implements heap.Interface.
func (s *idle) Push(one any) {
	added := one.(*session)
	*s = append(*s, added)
	added.at = len(*s)
}

// Pop implements heap.Interface.
func (s *idle) Pop() any {
	old := *s
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	last.at = 0
	return last
}

// add notes that nobody uses a session.
func (s *idle) add(one *session) {
	if one.at == 0 {
		heap.Push(s, one)
	}
}

// remove notes that a session is used, or has ended.
func (s *idle) remove(one *session) {
	if one.at != 0 {
		heap.Remove(s, one.at-1)
	}
}

// makeRoom makes room for a session if there is none: it ends the one that nobody uses and that was used
// for the shortest time. It passes over those that have to stay, until they are looked at again. The
// caller holds mu.
func (h *hub) makeRoom(key sessionKey) error {
	if !h.room.full(key, len(h.sessions)) {
		return nil
	}
	for h.room.idle.Len() > 0 {
		s := h.room.idle[0]
		h.room.idle.remove(s)
		if !h.stays(s) && !s.betweenPolls() {
			h.end(s)
			return nil
		}
	}
	return errNoRoom
}

// pollPause is how long clients that poll pause at most, as far as the relay makes room: without their
// session they would be newcomers at each poll.
const pollPause = time.Minute

// betweenPolls reports whether a client that polls may come back to a session that nobody uses.
func (s *session) betweenPolls() bool {
	return s.polled && time.Since(s.started.Add(s.used)) < pollPause
}

// stays reports whether a session that nobody uses has to stay: nobody could fill another one now, or
// it belongs to no client. The caller holds mu.
func (h *hub) stays(s *session) bool {
	// A session that nobody uses does not reconnect (UPS-2), and is idle then. One that has
	// learned nothing loses nothing: clients may invent names that no server answers (LIM-3).
	away := s.store.Session().Learned() && (s.client.Status().State == upstream.StateConnecting || !h.planeOf(s.key).outage().Since.IsZero())
	frozen := s.store.Operator().Frozen() // a new session would begin with what is held
	return s.store.Session().Wanted() > 0 && (away || frozen || s.key.ofAll())
}

// wake stops what waits for the end of a session that nobody uses. The caller holds mu.
func (h *hub) wake(s *session) {
	h.room.idle.remove(s)
	if s.closer != nil {
		s.closer.Stop()
		s.closer = nil
	}
}

// rest notes that nobody uses a session any more. The caller holds mu.
func (h *hub) rest(s *session) {
	s.used = time.Since(s.started)
	h.closeLater(s)
}
