package upstream

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/apiservices"
	"github.com/xdsrelay/xdsrelay/internal/backoff"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// maxTrialDelay bounds the wait before a suspect is tried again.
	maxTrialDelay = 5 * time.Minute
	// maxProven bounds the types that are remembered as proven, beside those that
	// are asked for at the time: where these are more, to half as many again.
	maxProven = 1024
	// mostBeside is how many types are tried beside a session's streams at a time.
	mostBeside = 16
)

// quarantine withholds types for which the server ends the whole stream: without
// it one client that asks for a type that is not served would take the stream from
// everybody in the scope, again and again (invariant 4). It belongs to the
// session's owner.
//
// A type is proven by a response, or by a stream that stood for stableAfter with
// it. If the server ends a stream with a status, which names no type, the types on it that
// are not proven become suspects, and so is a type from the start that no service is known of. Suspects are
// withheld, and tried on streams of their own (besides). While nothing is proven, nobody loses anything, and
// they are tried on the streams that there are, one at a time, so that the next such end has one type to
// blame. Meanwhile their names stay unanswered.
//
// Where each type has a stream of its own no other type is at risk: see refuse.
type quarantine struct {
	proven   map[string]struct{}
	inUse    int // of proven, when those that are not were forgotten last
	suspects map[string]*suspect
	trial    trial
	besides  besides
	// pace is the session's back-off for the trials of all suspects: many types together
	// are not to cost everybody the stream more often than one, and none is to wait for
	// long because of others.
	pace   backoff.Backoff
	most   time.Duration // the longest delay for a server that is gone (UPS-2)
	resume time.Time     // no trial before
}

// suspect is a type that is withheld.
type suspect struct {
	names   map[wire.StreamID]map[string]struct{} // wanted on each stream and not written
	backoff backoff.Backoff
	due     time.Time // of the next trial
	noted   bool      // Status lists it
}

// trial is the one suspect that is written and not proven yet.
type trial struct {
	typeURL string // "" if there is none
	stream  wire.StreamID
}

func newQuarantine(cfg *Config) quarantine {
	return quarantine{
		proven: make(map[string]struct{}), suspects: make(map[string]*suspect),
		besides: besides{trials: make(map[string]*besideTrial), unanswered: make(map[string]struct{})},
		most:    cfg.Backoff.Max, pace: backoff.Backoff{Base: cfg.Backoff.Base},
	}
}

// keep applies a subscription that is not written.
func (p *suspect) keep(stream wire.StreamID, sub wire.Subscription) {
	if p.names == nil {
		p.names = make(map[wire.StreamID]map[string]struct{})
	}
	if p.names[stream] == nil {
		p.names[stream] = make(map[string]struct{})
	}
	for _, name := range sub.Unsubscribe {
		delete(p.names[stream], name)
	}
	for _, name := range sub.Subscribe {
		p.names[stream][name] = struct{}{}
	}
}

// take returns the names that were kept. There are no versions to resume with: the server
// has never sent the type.
func (p *suspect) take(stream wire.StreamID, typeURL string) wire.Subscription {
	names := slices.Sorted(maps.Keys(p.names[stream]))
	delete(p.names, stream)
	return wire.Subscription{TypeURL: typeURL, Subscribe: names}
}

func (p *suspect) wanted() bool {
	for _, names := range p.names {
		if len(names) > 0 {
			return true
		}
	}
	return false
}

// forgotten is when a suspect that is not wanted any more is forgotten. It is not at once:
// otherwise clients that ask in turns would get round the delays.
func (p *suspect) forgotten() time.Time { return p.due.Add(maxTrialDelay) }

// delay has the next trial of a suspect wait. While no type is proven none is at risk, and
// the server may not let the relay in at all: then the trials are as frequent as for a
// server that is gone.
func (q *quarantine) delay(p *suspect) {
	p.backoff.Base, p.backoff.Max = q.pace.Base, maxTrialDelay
	if len(q.proven) == 0 {
		p.backoff.Max = q.most
	}
	p.due = time.Now().Add(p.backoff.Next())
}

// pause has all trials wait after one that failed. While something is proven that cost
// everybody the stream, so that they are less frequent than those of a server that is gone.
func (q *quarantine) pause() {
	q.pace.Max = q.most
	if len(q.proven) > 0 {
		q.pace.Max = max(q.most, longBackoff)
	}
	wait := q.pace.Next()
	if len(q.proven) > 0 {
		wait = max(wait, renewPause) // LIM-2
	}
	q.resume = time.Now().Add(wait)
}

// withhold reports whether a subscription must not be written now, and keeps it
// then. What was asked for on the stream, or is to be once it is small enough (RES-17), is
// being tried.
func (q *quarantine) withhold(k *streamLink, sub wire.Subscription) bool {
	p := q.suspects[sub.TypeURL]
	if p == nil || k.asks(sub.TypeURL) || q.tries(k, sub.TypeURL) {
		return false
	}
	p.keep(k.line.id, sub)
	return true
}

// tries reports whether a type is being tried on a stream.
func (q *quarantine) tries(k *streamLink, typeURL string) bool {
	return q.trial == trial{typeURL: typeURL, stream: k.line.id}
}

// cancelTrial ends a trial of which nothing was written and nothing will be: its request was
// put off for its size, and all its names were dropped (RES-17).
func (q *quarantine) cancelTrial(k *streamLink) {
	if tried := q.trial.typeURL; tried != "" && q.tries(k, tried) && !k.asks(tried) && !k.dialect.owes(tried) {
		q.trial = trial{}
	}
}

// forget forgets the types that are proven and not in use, if there are many.
func (q *quarantine) forget(used func(typeURL string) bool) {
	if len(q.proven) < max(maxProven, q.inUse+q.inUse/2) {
		return
	}
	maps.DeleteFunc(q.proven, func(typeURL string, _ struct{}) bool { return !used(typeURL) })
	maps.DeleteFunc(q.besides.unanswered, func(typeURL string, _ struct{}) bool { return !used(typeURL) })
	q.inUse = len(q.proven)
}

// besides are the trials of suspects on streams of their own, beside those that clients use: a server that ends
// a stream for a type takes nothing from anybody then (LIM-2). Each suspect has a stream, so that its end has
// one type to blame. Nothing that comes on it reaches the Store.
type besides struct {
	trials map[string]*besideTrial
	// unanswered are types that no service is known of, and that the server let stand without an answer. If a
	// stream that carries one ends, it may be because of that.
	unanswered map[string]struct{}
	// refused: the server takes one stream of a node only. Then suspects are tried on the streams that
	// there are, at most once a minute.
	refused bool
	asked   bool // whether it does, by something that it serves
}

// besideTrial is one trial.
type besideTrial struct {
	suspect *suspect
	stop    context.CancelFunc
}

// unproven reports whether a type is one that no client is known to use and that the server has not let stand.
func (q *quarantine) unproven(typeURL string) bool {
	_, proven := q.proven[typeURL]
	return !proven && !apiservices.Known(typeURL)
}

// aside reports whether suspects are tried beside: something is at risk on the streams that there are, and the
// server takes others.
func (q *quarantine) aside() bool { return len(q.proven) > 0 && !q.besides.refused }

// room reports whether a suspect may be tried beside now.
func (b *besides) room() bool { return len(b.trials) < mostBeside }

// stood notes that the server let a type stand without an answer.
func (b *besides) stood(typeURL string) {
	if !apiservices.Known(typeURL) {
		b.unanswered[typeURL] = struct{}{}
	}
}

// blamed are the types that a stream may have ended for: those that no service is known of, if there are any,
// and else all that are not proven.
func (q *quarantine) blamed(k *streamLink) (all []string) {
	var unknown []string
	for typeURL := range k.asked {
		_, unanswered := q.besides.unanswered[typeURL]
		if _, proven := q.proven[typeURL]; (proven && !unanswered) || q.suspects[typeURL] != nil {
			continue
		}
		all = append(all, typeURL)
		if !apiservices.Known(typeURL) {
			unknown = append(unknown, typeURL)
		}
	}
	if len(unknown) > 0 {
		return unknown
	}
	return all
}
