package upstream

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/backoff"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// maxTrialDelay bounds the wait before a suspect is tried again.
	maxTrialDelay = 5 * time.Minute
	// maxProven bounds the types that are remembered as proven, beside those that
	// are asked for at the time: where these are more, to half as many again.
	maxProven = 1024
)

// quarantine withholds types for which the server ends the whole stream: without
// it one client that asks for a type that is not served would take the stream from
// everybody in the scope, again and again (invariant 4). It belongs to the
// session's owner.
//
// A type is proven by a response, or by a stream that stood for stableAfter with
// it. If the server ends a stream with a status, which does not say of what, the
// types on it that are not proven become suspects. Suspects are withheld, and tried
// one at a time, so that the next such end has one type to blame. Meanwhile what is
// wanted of them stays unanswered.
//
// Where each type has a stream of its own there is nobody to protect: see refuse.
type quarantine struct {
	proven   map[string]struct{}
	inUse    int // of proven, when those that are not were forgotten last
	suspects map[string]*suspect
	trial    trial
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
}

// trial is the one suspect that is written and not proven yet.
type trial struct {
	typeURL string // "" if there is none
	stream  wire.StreamID
}

func newQuarantine(cfg *Config) quarantine {
	return quarantine{
		proven: make(map[string]struct{}), suspects: make(map[string]*suspect),
		most: cfg.BackoffMax, pace: backoff.Backoff{Base: cfg.BackoffBase},
	}
}

// keep takes over what a subscription says.
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

// take gives back what was kept. There are no versions to resume with: nothing
// ever came of the type.
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

// forgotten is when a suspect that nobody wants any more is let go. It is not at
// once, or asking in turns would get round the delays.
func (p *suspect) forgotten() time.Time { return p.due.Add(maxTrialDelay) }

// delay has the next trial of a suspect wait. While nothing is proven nobody is
// protected, and it may be the server that does not let us in: then it is tried as
// often as a server that is gone.
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
	q.resume = time.Now().Add(q.pace.Next())
}

// withhold reports whether a subscription must not be written now, and keeps it
// then. What was asked for on the stream, or is to be once it is small enough (RES-17), is
// being tried.
func (q *quarantine) withhold(l *line, sub wire.Subscription) bool {
	p := q.suspects[sub.TypeURL]
	if p == nil || l.asks(sub.TypeURL) || q.tries(l, sub.TypeURL) {
		return false
	}
	p.keep(l.id, sub)
	return true
}

// tries reports whether a type is being tried on a stream.
func (q *quarantine) tries(l *line, typeURL string) bool {
	return q.trial == trial{typeURL: typeURL, stream: l.id}
}

// mayConcernTypes says whether what ended a stream may be about what was asked for
// on it. A connection that broke is not, and neither are our own reasons, which
// are no statuses; the other codes left out are about the stream's life.
func mayConcernTypes(cause error) bool {
	st, ok := status.FromError(cause)
	if !ok {
		return false
	}
	switch st.Code() {
	case codes.OK, codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return false
	default:
		return true
	}
}

// blame finds the suspects of a stream that broke. In a trial it is the type that
// is tried; if that is wrong, the next stream ends too and has nothing on trial.
func (s *Session) blame(l *line, cause error) {
	if s.up.cfg.APIType.PerType() || !l.open || l.draining || !mayConcernTypes(cause) {
		return
	}
	s.stood(l)
	q := &s.quarantine
	if tried := q.trial; l.asks(tried.typeURL) && q.tries(l, tried.typeURL) {
		q.trial = trial{}
		q.delay(q.suspects[tried.typeURL])
		q.pause()
		s.log.Debug("type still ends the stream", "type", tried.typeURL, "error", detail(cause))
		return
	}
	var added []string
	for typeURL := range l.asked {
		if _, ok := q.proven[typeURL]; ok || q.suspects[typeURL] != nil {
			continue
		}
		p := new(suspect)
		q.delay(p)
		q.suspects[typeURL] = p
		s.noteQuarantined(typeURL, 1)
		added = append(added, typeURL)
	}
	if len(added) > 0 {
		level, which := s.summary(added)
		s.log.Log(s.ctx, level, "types may be what the server ended the stream for, withholding them", which, slog.String("error", detail(cause)))
	}
}

// refuse reports whether a stream that broke carried one type, for whose sake the
// server may have ended it. That costs nobody else anything: the stream is tried
// again where it was, at growing intervals, as long as the endpoint serves others.
func (s *Session) refuse(l *line, cause error) bool {
	if !s.up.cfg.APIType.PerType() || !l.open || !mayConcernTypes(cause) {
		return false
	}
	if !l.refused {
		l.refused = true
		l.backoff.Max = max(maxTrialDelay, s.up.cfg.BackoffMax)
		s.log.Warn("server ended the stream of a type, which it may not serve", "type", l.id.TypeURL, "error", detail(cause))
		s.noteQuarantined(l.id.TypeURL, 1)
	}
	return slices.ContainsFunc(s.lines, func(o *line) bool { return o != l && o.established })
}

// welcomed takes back what refuse said: the stream is good.
func (s *Session) welcomed(l *line) {
	if l.refused {
		l.refused = false
		l.backoff.Max = s.up.cfg.BackoffMax
		s.noteQuarantined(l.id.TypeURL, -1)
	}
}

// stood proves the types that have been on a stream for long.
func (s *Session) stood(l *line) {
	now := time.Now()
	for typeURL, since := range l.asked {
		if now.Sub(since) >= stableAfter {
			s.prove(typeURL)
		}
	}
}

// prove notes that the server does not mind a type. If it was withheld it is
// subscribed to now.
func (s *Session) prove(typeURL string) {
	q := &s.quarantine
	if _, ok := q.proven[typeURL]; ok || s.up.cfg.APIType.PerType() {
		return
	}
	if len(q.proven) >= max(maxProven, q.inUse+q.inUse/2) {
		maps.DeleteFunc(q.proven, func(proven string, _ struct{}) bool {
			return !slices.ContainsFunc(s.lines, func(l *line) bool { return l.asks(proven) })
		})
		q.inUse = len(q.proven)
	}
	q.proven[typeURL] = struct{}{}
	p := q.suspects[typeURL]
	if p == nil {
		return
	}
	delete(q.suspects, typeURL)
	if q.trial.typeURL == typeURL {
		q.trial = trial{}
	}
	q.pace.Reset()
	q.resume = time.Time{}
	s.log.Info("type is withheld no longer", "type", typeURL)
	s.noteQuarantined(typeURL, -1)
	for _, l := range s.lines {
		if l.open && !l.draining {
			s.store.Withhold(l.id, typeURL, false)
			s.subscribe(l, p.take(l.id, typeURL))
		}
	}
	s.settle()
}

// withdraw takes a stream that is over out of the quarantine: the next one's
// Restart says anew what is wanted. A trial that ended for another reason says
// nothing about its type, and is repeated after a delay like its last.
func (s *Session) withdraw(l *line) {
	s.stood(l)
	q := &s.quarantine
	if tried := q.trial; tried.typeURL != "" && tried.stream == l.id {
		q.trial = trial{}
		p := q.suspects[tried.typeURL]
		p.backoff.Attempts--
		q.delay(p)
	}
	for _, p := range q.suspects {
		delete(p.names, l.id)
	}
}

// cancelTrial ends a trial of which nothing was written, and nothing is to be: its request
// was put off for its size, and all its names were let go (RES-17).
func (s *Session) cancelTrial(l *line) {
	q := &s.quarantine
	if tried := q.trial.typeURL; tried != "" && q.tries(l, tried) && !l.asks(tried) && !l.dialect.owes(tried) {
		q.trial = trial{}
	}
}

// trialLine is the stream on which a suspect can be tried, nil if there is none
// now. It must be known to be good, so that its end would say something, or have
// nothing else to carry.
func (s *Session) trialLine(p *suspect) *line {
	for _, l := range s.lines {
		if len(p.names[l.id]) > 0 && l.open && !l.draining && (l.established || len(l.asked) == 0) {
			return l
		}
	}
	return nil
}

// trialAt is when try has something to do, zero if never.
func (s *Session) trialAt() (at time.Time) {
	q := &s.quarantine
	if tried := q.trial; tried.typeURL != "" {
		since, asked := s.line(tried.stream).asked[tried.typeURL]
		if !asked {
			return time.Time{} // put off for its size (RES-17), until the Store has something to say
		}
		return since.Add(stableAfter)
	}
	for _, p := range q.suspects {
		switch {
		case !p.wanted():
			at = earlier(at, p.forgotten())
		case s.trialLine(p) == nil:
		case p.due.Before(q.resume):
			at = earlier(at, q.resume)
		default:
			at = earlier(at, p.due)
		}
	}
	return at
}

// try ends a trial that went well for long enough, forgets suspects that nobody
// wants, and begins the next trial: of those that are due, the one that failed least.
func (s *Session) try(now time.Time) {
	q := &s.quarantine
	if tried := q.trial; tried.typeURL != "" {
		since, asked := s.line(tried.stream).asked[tried.typeURL]
		if asked && now.Sub(since) >= stableAfter {
			s.prove(tried.typeURL)
		}
	}
	if q.trial.typeURL != "" {
		return
	}
	var next *suspect
	var typeURL string
	for url, p := range q.suspects {
		switch {
		case !p.wanted():
			if !now.Before(p.forgotten()) {
				delete(q.suspects, url)
				s.noteQuarantined(url, -1)
			}
		case now.Before(p.due), now.Before(q.resume), s.trialLine(p) == nil:
		case next == nil || p.backoff.Attempts < next.backoff.Attempts:
			next, typeURL = p, url
		}
	}
	if next == nil {
		return
	}
	l := s.trialLine(next)
	s.log.Debug("trying a withheld type", "type", typeURL, "stream", l.id)
	q.trial = trial{typeURL: typeURL, stream: l.id}
	s.store.Withhold(l.id, typeURL, false)
	s.ask(l, next.take(l.id, typeURL))
	s.settle()
}
