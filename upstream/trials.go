package upstream

import (
	"log/slog"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/moment"
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
		q.pause()
		c.report.log.Debug("type still ends the stream", "type", tried.typeURL, "error", detail(cause))
		return
	}
	var added []string
	for typeURL := range k.asked {
		if _, ok := q.proven[typeURL]; ok || q.suspects[typeURL] != nil {
			continue
		}
		p := new(suspect)
		q.delay(p)
		q.suspects[typeURL] = p
		c.report.noteQuarantined(typeURL, 1)
		added = append(added, typeURL)
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
		if now.Sub(since) >= stableAfter {
			c.prove(typeURL)
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
	delete(q.suspects, typeURL)
	if q.trial.typeURL == typeURL {
		q.trial = trial{}
	}
	q.pace.Reset()
	q.resume = time.Time{}
	c.report.log.Info("type is withheld no longer", "type", typeURL)
	c.report.noteQuarantined(typeURL, -1)
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
	for _, p := range q.suspects {
		switch {
		case !p.wanted():
			at = moment.Earlier(at, p.forgotten())
		case c.trialLink(p) == nil:
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
				c.report.noteQuarantined(url, -1)
			}
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
