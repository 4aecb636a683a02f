package downstream

import (
	"runtime"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// What a stream's owner knows of its client, operators are told by whoever becomes the owner for that:
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
	for range attempts {
		if st.owner.try() {
			return st.inspect(details)
		}
		runtime.Gosched()
	}
	st.standing.mu.Lock()
	defer st.standing.mu.Unlock()
	s := st.describeLocked()
	for _, t := range st.types.list { // which the client does not read, or which is being served
		v := TypeView{TypeStatus: t.status, State: Behind, Config: configStale, WaitsFor: delivery.WaitsForACK, BehindSince: t.status.LastSent}
		if t.status.Responses == 0 {
			v.Config, v.WaitsFor = configNotSent, delivery.WaitsForTurn
		}
		s.Types[t.url] = v
	}
	return s
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
	defer func() { // not yield: a panic here is none of the client's
		st.owner.give()
		if st.bell.rung.Load() {
			st.ring()
		}
	}()
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
	switch {
	case t.rejecting:
		v.State, v.Config = Rejecting, configError
		return
	case v.WaitsFor == delivery.WaitsForACK, v.WaitsFor == delivery.WaitsForTurn:
		v.State, v.Config = Behind, configStale
	case v.WaitsFor != delivery.WaitsForNothing:
		v.State, v.Config = Waiting, configSynced
	default:
		v.State, v.Config = Current, configSynced
	}
	if t.status.Responses == 0 && t.status.Subscriptions > 0 && v.State != Current {
		v.Config = configNotSent
	}
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

// Census counts clients by type and state: each stream, and each poll that is held. It is exact.
func (s *Server) Census() map[string]map[ClientState]int {
	census := make(map[string]map[ClientState]int)
	for _, m := range s.present() {
		for url, t := range m.status(nil).Types {
			if t.Subscriptions == 0 {
				continue
			}
			if census[url] == nil {
				census[url] = make(map[ClientState]int, len(States))
			}
			census[url][t.State]++
		}
	}
	return census
}
