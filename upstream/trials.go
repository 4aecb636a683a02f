package upstream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/moment"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// blame finds the suspects of a stream that broke. In a trial it is the type on trial. If
// that is wrong, the next stream ends too and has no type on trial.
func (c *grpcClient) blame(k *streamLink, cause error) {
	if c.cfg.APIType.PerType() || !k.line.serving() || !refusedBy(cause) {
		return
	}
	c.stood(k)
	q := &c.quarantine
	if tried := q.trial; k.asks(tried.typeURL) && q.tries(k, tried.typeURL) {
		q.trial = trial{}
		q.delay(q.suspects[tried.typeURL])
		noteSuspect(c, tried.typeURL, q.suspects[tried.typeURL])
		q.pause()
		c.report.log.Debug("type still ends the stream", "type", tried.typeURL, "error", detail(cause))
		return
	}
	added := q.blamed(k)
	for _, typeURL := range added {
		becomeSuspect(c, typeURL)
	}
	if len(added) == 0 {
		harmedBeside(c)
	}
	if len(added) > 0 {
		level, which := c.report.summary(added)
		c.report.log.Log(c.remote.ctx, level, "types may be what the server ended the stream for, withholding them", which, slog.String("error", detail(cause)))
	}
}

// refuse reports whether a stream that broke carried one type, for whose sake the server
// may have ended it. That costs no other type anything: the stream is tried again where it
// was, at growing intervals, as long as the endpoint serves others.
func (c *grpcClient) refuse(k *streamLink, cause error) bool {
	l := k.line
	if !c.cfg.APIType.PerType() || !l.open || !refusedBy(cause) {
		return false
	}
	if !l.refused {
		c.report.log.Warn("server ended the stream of a type, which it may not serve", "type", l.id.TypeURL, "error", detail(cause))
		l.refuse()
	}
	return slices.ContainsFunc(c.remote.lines, func(o *line) bool { return o != l && o.established })
}

// stood proves the types that have been on a stream for long.
func (c *grpcClient) stood(k *streamLink) {
	now := time.Now()
	for typeURL, since := range k.asked {
		if _, proven := c.quarantine.proven[typeURL]; !proven && now.Sub(since) >= stableAfter {
			c.prove(typeURL)
			c.quarantine.besides.stood(typeURL)
		}
	}
}

// prove notes that the server does not mind a type. If it was withheld it is
// subscribed to now.
func (c *grpcClient) prove(typeURL string) {
	q := &c.quarantine
	if _, ok := q.proven[typeURL]; ok || c.cfg.APIType.PerType() {
		return
	}
	q.forget(func(proven string) bool {
		for k := range c.links() {
			if k.asks(proven) {
				return true
			}
		}
		return false
	})
	q.proven[typeURL] = struct{}{}
	p := q.suspects[typeURL]
	if p == nil {
		return
	}
	noted := p.noted
	forgetSuspect(c, typeURL)
	if q.trial.typeURL == typeURL {
		q.trial = trial{}
	}
	q.pace.Reset()
	q.resume = time.Time{}
	if noted {
		c.report.log.Info("type is withheld no longer", "type", typeURL)
	}
	for k := range c.links() {
		if id := k.line.id; k.line.serving() {
			c.store.Withhold(id, typeURL, false)
			k.subscribe(p.take(id, typeURL))
		}
	}
	c.session.settle()
}

// withdraw takes a stream that is over out of the quarantine: with the next stream Restart
// returns all demand anew. A trial that ended for another reason says nothing about its
// type, and is repeated after a delay like its last.
func (c *grpcClient) withdraw(k *streamLink) {
	c.stood(k)
	q := &c.quarantine
	if tried := q.trial; tried.typeURL != "" && tried.stream == k.line.id {
		q.trial = trial{}
		p := q.suspects[tried.typeURL]
		p.backoff.Attempts--
		q.delay(p)
	}
	for _, p := range q.suspects {
		delete(p.names, k.line.id)
	}
}

// trialLink is the stream on which a suspect can be tried, nil if there is none
// now. It must be known to be good, so that its end would say something, or have
// nothing else to carry.
func (c *grpcClient) trialLink(p *suspect) *streamLink {
	for k := range c.links() {
		if len(p.names[k.line.id]) > 0 && k.line.serving() && (k.line.established || len(k.asked) == 0) {
			return k
		}
	}
	return nil
}

// trialAt is when try has something to do, zero if never.
func (c *grpcClient) trialAt() (at time.Time) {
	q := &c.quarantine
	if tried := q.trial; tried.typeURL != "" {
		since, asked := c.link(tried.stream).asked[tried.typeURL]
		if !asked {
			return time.Time{} // put off for its size (RES-17), until the Store has something to say
		}
		return since.Add(stableAfter)
	}
	for typeURL, p := range q.suspects {
		switch {
		case q.besides.trials[typeURL] != nil:
		case !p.wanted():
			at = moment.Earlier(at, p.forgotten())
		case c.trialLink(p) == nil:
		case q.aside():
			if q.besides.room() {
				at = moment.Earlier(at, p.due)
			}
		case p.due.Before(q.resume):
			at = moment.Earlier(at, q.resume)
		default:
			at = moment.Earlier(at, p.due)
		}
	}
	return at
}

// try ends a trial that went well for long enough, forgets suspects that are not wanted, and
// begins the next trial: of the suspects that are due, the one that failed least.
func (c *grpcClient) try(now time.Time) {
	q := &c.quarantine
	if tried := q.trial; tried.typeURL != "" {
		since, asked := c.link(tried.stream).asked[tried.typeURL]
		if asked && now.Sub(since) >= stableAfter {
			c.prove(tried.typeURL)
			q.besides.stood(tried.typeURL)
		}
	}
	if q.trial.typeURL != "" {
		return
	}
	for url, p := range q.suspects {
		if !p.wanted() && q.besides.trials[url] == nil && !now.Before(p.forgotten()) {
			forgetSuspect(c, url)
		}
	}
	if q.aside() {
		tryBeside(c, now)
		return
	}
	tryAmong(c, now)
}

// tryAmong begins the next trial on one of the streams that there are.
func tryAmong(c *grpcClient, now time.Time) {
	q := &c.quarantine
	var next *suspect
	var typeURL string
	for url, p := range q.suspects {
		switch {
		case q.besides.trials[url] != nil, !p.wanted():
		case now.Before(p.due), now.Before(q.resume), c.trialLink(p) == nil:
		case next == nil || p.backoff.Attempts < next.backoff.Attempts:
			next, typeURL = p, url
		}
	}
	if next == nil {
		return
	}
	k := c.trialLink(next)
	id := k.line.id
	c.report.log.Debug("trying a withheld type", "type", typeURL, "stream", id)
	q.trial = trial{typeURL: typeURL, stream: id}
	c.store.Withhold(id, typeURL, false)
	k.ask(next.take(id, typeURL))
	c.session.settle()
}

// tryBeside begins trials beside, of the suspects that are due, those first that failed least.
func tryBeside(c *grpcClient, now time.Time) {
	b := &c.quarantine.besides
	due := slices.DeleteFunc(slices.Sorted(maps.Keys(c.quarantine.suspects)), func(typeURL string) bool {
		p := c.quarantine.suspects[typeURL]
		return b.trials[typeURL] != nil || now.Before(p.due) || c.trialLink(p) == nil
	})
	slices.SortStableFunc(due, func(x, y string) int {
		return c.quarantine.suspects[x].backoff.Attempts - c.quarantine.suspects[y].backoff.Attempts
	})
	for _, typeURL := range due {
		if !b.room() {
			return
		}
		beginBeside(c, typeURL, c.quarantine.suspects[typeURL])
	}
}

// beginBeside tries a suspect on a stream of its own. The trial takes its place for the whole time, unless
// the server answers: otherwise a client that invents types would have the server take a stream for each.
func beginBeside(c *grpcClient, typeURL string, p *suspect) {
	k := c.trialLink(p)
	id, x := k.line.id, k.line.replica
	names := slices.Sorted(maps.Keys(p.names[id]))
	q := &query{stream: id, typeURL: typeURL, names: names[:min(len(names), someNames)]}
	ctx, stop := context.WithCancel(c.remote.ctx)
	trial := &besideTrial{p, stop}
	c.quarantine.besides.trials[typeURL] = trial
	c.report.log.Debug("trying a type beside", "type", typeURL)
	asker, known, end := c.asker(), c.delivered.query(), time.Now().Add(stableAfter)
	switch b := &c.quarantine.besides; {
	case b.asked:
		known = nil
	case known == nil && k.opening != nil && !c.quarantine.unproven(k.opening.typeURL):
		known, b.asked = k.opening, true
	default:
		b.asked = known != nil
	}
	ask := func(q *query) error {
		_, err := c.session.safety.ask(ctx, asker, x, q, terms{deadline: time.Now().Add(stableAfter), heard: func(time.Time) {}})
		return err
	}
	c.remote.failback.wg.Go(func() {
		err, one := ask(q), false
		if errors.Is(err, errUnwilling) && known != nil {
			one = errors.Is(ask(known), errUnwilling) // it takes no other stream, whatever the type
		}
		if err != nil {
			rest(ctx, time.Until(end))
		}
		c.session.post(c.remote.ctx, func() { tried(c, typeURL, trial, err, one) })
	})
}

// rest waits for a while, unless ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tried notes what came of a trial beside. one says that the server takes no other stream.
func tried(c *grpcClient, typeURL string, trial *besideTrial, err error, one bool) {
	q, p := &c.quarantine, trial.suspect
	b := &q.besides
	delete(b.trials, typeURL)
	trial.stop()
	switch {
	case q.suspects[typeURL] != p: // it is proven, or not wanted any more
	case err == nil:
		c.prove(typeURL)
	case errors.Is(err, errSilent):
		c.prove(typeURL)
		b.stood(typeURL)
	case one:
		refuseBeside(c, "the server takes no second stream of a node")
	case errors.Is(err, errUnwilling):
		q.delay(p)
		noteSuspect(c, typeURL, p)
		c.report.log.Debug("type is refused", "type", typeURL, "error", detail(err))
	default: // it says nothing about the type
		p.backoff.Attempts = max(0, p.backoff.Attempts-1)
		q.delay(p)
	}
	c.try(time.Now())
	c.session.settle()
}

// harmedBeside notes that a stream ended that the server had no reason to end but trials beside.
func harmedBeside(c *grpcClient) {
	b := &c.quarantine.besides
	if len(b.trials) == 0 || b.refused {
		return
	}
	for _, trial := range b.trials {
		trial.stop() // or it would have the next stream end, too
	}
	refuseBeside(c, "the server ends the stream of a node that opens another")
}

func refuseBeside(c *grpcClient, why string) {
	c.quarantine.besides.refused = true
	c.report.log.Warn("types that the server may not serve are tried on the streams that there are", "reason", why)
}

// noteSuspect has Status list a type that the server refuses.
func noteSuspect(c *grpcClient, typeURL string, p *suspect) {
	if !p.noted {
		p.noted = true
		c.report.noteQuarantined(typeURL, 1)
	}
}

// forgetSuspect takes a suspect out, which is proven or not wanted any more.
func forgetSuspect(c *grpcClient, typeURL string) {
	if p := c.quarantine.suspects[typeURL]; p.noted {
		c.report.noteQuarantined(typeURL, -1)
	}
	delete(c.quarantine.suspects, typeURL)
}

// suspect withholds a type that a stream may have ended for.
func becomeSuspect(c *grpcClient, typeURL string) {
	q, p := &c.quarantine, new(suspect)
	q.delay(p)
	if _, unanswered := q.besides.unanswered[typeURL]; unanswered {
		p.due = time.Now().Add(maxTrialDelay) // the server lets it stand for longer than a trial
		delete(q.besides.unanswered, typeURL)
		delete(q.proven, typeURL)
	}
	q.suspects[typeURL] = p
	noteSuspect(c, typeURL, p)
}

// untried has a type tried beside before it is asked for on a stream that clients use.
func untried(c *grpcClient, k *streamLink, typeURL string) {
	q := &c.quarantine
	if c.cfg.APIType.PerType() || !q.aside() || !q.unproven(typeURL) || q.suspects[typeURL] != nil || k.asks(typeURL) {
		return
	}
	q.suspects[typeURL] = &suspect{due: time.Now()}
}

// dropUntried forgets a type that was never refused and that nobody wants any more: clients may invent many.
func dropUntried(c *grpcClient, sub wire.Subscription) {
	q := &c.quarantine
	if p := q.suspects[sub.TypeURL]; p != nil && !p.noted && !p.wanted() && p.backoff.Attempts == 0 {
		forgetSuspect(c, sub.TypeURL)
	}
}
