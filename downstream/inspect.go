package downstream

import (
	"runtime"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// Operators are told what a stream's owner knows of its client. A goroutine becomes the owner for that:
// status takes a stream that is at rest, as a sender does. It never waits for one whose owner waits for the
// client to read.

// The words of the client status discovery service for a type.
const (
	configSynced  = "SYNCED"
	configNotSent = "NOT_SENT"
	configStale   = "STALE"
	configError   = "ERROR"
)

// Wanted says which names Clients is to list.
type Wanted = delivery.Wanted

// attempts is how often status tries to take a stream: its owner mostly is done in microseconds.
const attempts = 100

// nodeID returns the ID of the client's node.
func (s *standing) nodeID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

func (st *stream) nodeID() string { return st.standing.nodeID() }
func (p *poll) nodeID() string    { return p.standing.nodeID() }

// status returns the stream's Status.
func (st *stream) status(details delivery.Wanted) Status {
	if st.take() {
		return st.inspect(details)
	}
	st.standing.mu.Lock()
	defer st.standing.mu.Unlock()
	s := st.describeLocked()
	for _, t := range st.types.list { // which the client does not read, or which is being served
		v := TypeView{TypeStatus: t.status, State: t.status.atWork(), Config: configSynced}
		switch {
		case v.State == Rejecting:
			v.Config = configError
		case t.status.Responses == 0:
			v.Config, v.WaitsFor, v.BehindSince = configNotSent, delivery.WaitsForTurn, t.status.LastSent
		case v.State == Behind:
			v.Config, v.WaitsFor, v.BehindSince = configStale, delivery.WaitsForACK, t.status.LastSent
		}
		s.Types[t.url] = v
	}
	return s
}

// take makes the caller the stream's owner, unless another one stays it.
func (st *stream) take() bool {
	for range attempts {
		if st.owner.try() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// giveBack ends what take began. It does not yield: a panic of the caller's is none of the client's.
func (st *stream) giveBack() {
	st.owner.give()
	if st.bell.rung.Load() {
		st.ring()
	}
}

// atWork is how far the client of a stream is that another one owns: it is being served, or the client does not read.
func (t *TypeStatus) atWork() ClientState {
	switch {
	case t.Acknowledged:
		return Current
	case t.LastNack != nil && t.LastNack.At.After(t.LastSent):
		return Rejecting
	}
	return Behind
}

// describeLocked returns what there is to say without the ownership, and room for the types.
func (st *stream) describeLocked() Status {
	s := st.standing.statusLocked()
	s.Variant, s.Service = st.variant.String(), st.variant.service.Name
	s.Types = make(map[string]TypeView, len(st.types.list))
	return s
}

// inspect returns the Status of a stream that the caller owns, and gives up the ownership.
func (st *stream) inspect(details delivery.Wanted) Status {
	defer st.giveBack()
	st.standing.mu.Lock()
	s := st.describeLocked()
	for _, t := range st.types.list {
		s.Types[t.url] = TypeView{TypeStatus: t.status}
	}
	st.standing.mu.Unlock()
	var insights []delivery.Insight
	if st.subscriber != nil {
		s.Relay = st.subscriber.Form().Relay
		insights = st.subscriber.Inspect(st.owes, details)
	}
	for _, t := range st.types.list {
		v := s.Types[t.url]
		for i := range insights {
			if insights[i].TypeURL == t.url {
				v.learn(&insights[i])
			}
		}
		v.Sent, v.Held = t.systemVersion, t.held()
		v.judge(t)
		s.Types[t.url] = v
	}
	return s
}

// owes says which acknowledgements of a type the client owes, whatever a response would wait for.
func (st *stream) owes(url string) delivery.Acks {
	if t := st.types.of(url); t != nil && !t.flow.idle() {
		return delivery.Awaited
	}
	return delivery.Acknowledged
}

func (v *TypeView) learn(x *delivery.Insight) {
	v.WaitsFor, v.BehindSince, v.Wildcard, v.Stores = x.Waits, x.Since, x.Wildcard, x.Stores
	v.Unanswered, v.Missing, v.Rejects, v.Names = x.Open.Names, x.Missing.Names, x.Rejected, x.Details
	v.Counts = Counts{x.Open.Count, x.Missing.Count}
}

// judge says how far the client is with a type.
func (v *TypeView) judge(t *typeState) {
	if v.WaitsFor == delivery.WaitsForACK {
		since := t.flow.received // zero if the responses only answer subscriptions
		if since.IsZero() {
			since = t.flow.sentAt
		}
		v.BehindSince = notify.Earlier(since, v.BehindSince)
	}
	v.State, v.Config = clientState(t.rejecting, v.WaitsFor), configSynced
	switch v.State {
	case Rejecting:
		v.Config = configError
		return
	case Behind:
		v.Config = configStale
	}
	if t.status.Responses == 0 && t.status.Subscriptions > 0 && v.State != Current {
		v.Config = configNotSent
	}
}

// clientState is the state of a client that waits for something.
func clientState(rejecting bool, waits delivery.Wait) ClientState {
	switch {
	case rejecting:
		return Rejecting
	case waits == delivery.WaitsForACK, waits == delivery.WaitsForTurn:
		return Behind
	case waits != delivery.WaitsForNothing:
		return Waiting
	}
	return Current
}

// held returns the version of the last response that the client acknowledged.
func (t *typeState) held() string {
	switch {
	case len(t.flow.flights) > 0:
		return t.flow.flights[0].batch.Held
	case t.status.LastNack != nil && !t.status.Acknowledged:
		return t.status.LastNack.Held
	}
	return t.systemVersion
}

// census counts clients by type and state.
type census struct {
	counts map[string]map[ClientState]int
	waits  []delivery.TypeWait // of one client; for the next one to use again
}

func (c *census) add(url string, state ClientState) {
	if c.counts[url] == nil {
		c.counts[url] = make(map[ClientState]int, len(States))
	}
	c.counts[url][state]++
}

// Census counts clients by type and state: each stream, and each poll that is held. It is exact, and lists nothing of a client.
func (s *Server) Census() map[string]map[ClientState]int {
	c := &census{counts: make(map[string]map[ClientState]int)}
	for _, m := range s.present() {
		m.census(c)
	}
	return c.counts
}

func (st *stream) census(to *census) {
	if !st.take() {
		st.standing.mu.Lock()
		defer st.standing.mu.Unlock()
		for _, t := range st.types.list {
			if t.status.Subscriptions > 0 {
				to.add(t.url, t.status.atWork())
			}
		}
		return
	}
	defer st.giveBack()
	to.waits = to.waits[:0]
	if st.subscriber != nil {
		to.waits = st.subscriber.Waits(to.waits, st.owes)
	}
	for _, t := range st.types.list {
		if t.status.Subscriptions == 0 {
			continue
		}
		wait := delivery.WaitsForNothing
		for _, w := range to.waits {
			if w.TypeURL == t.url {
				wait = w.Wait
			}
		}
		to.add(t.url, clientState(t.rejecting, wait))
	}
}

func (p *poll) census(to *census) {
	for url, t := range p.status(nil).Types {
		if t.Subscriptions > 0 {
			to.add(url, t.State)
		}
	}
}
