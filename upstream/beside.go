package upstream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

const (
	// maxRetryPause bounds the pause before a type that the server refused is asked for again.
	maxRetryPause = 5 * time.Minute
	// maxAnswered bounds the types that are remembered as answered. One that is forgotten costs a retry at most.
	maxAnswered = 1024
	// mostBeside is how many types are asked for beside a session's streams at a time.
	mostBeside = 16
	// retryEndsFirst is how long after a retry a stream may end because of it.
	retryEndsFirst = time.Second
	// oneStream is why a type is not asked for beside.
	oneStream = "the server ends the stream of a node that opens another"
)

// besides are the types that the server may end a stream for. They are asked for on streams of their own, beside
// those that clients use: so one client that wants such a type takes the stream from nobody (LIM-2). It belongs to
// the session's owner.
//
// Two sorts of types go there: those that were on a stream that the server ended with a status, and had
// no answer before; and from the start those that no service is known of, once something else was answered. Meanwhile
// their names stay unanswered. A retry has a stream for one type, and nothing that comes on it reaches the Store. A
// type that is answered there, or stands, joins the others.
//
// Where each type has a stream of its own no other type is at risk: see streamLink.refused.
type besides struct {
	answered *simplelru.LRU[string, struct{}] // types
	types    map[string]*besideType
	running  int       // retries
	ended    time.Time // the last retry
	// quiet: the server ended a stream for types less than a minute ago. Until then no type that was not
	// answered comes to the streams.
	quiet  time.Time
	resume time.Time // no retry before: one may have cost the session a stream
	alone  bool      // it did: the server takes one stream of a node
}

// besideType is a type that is not answered, and goes beside or did so.
type besideType struct {
	kept    map[wire.StreamID]*kept
	backoff retry.Backoff
	due     time.Time          // of the next retry
	stop    context.CancelFunc // of the retry that runs; nil: none does
	joined  bool               // it is on the streams: the server let it stand, or nothing else is wanted
	refused bool               // Status lists it
}

// kept is the demand for a type on a stream that is not written yet.
type kept struct {
	names    map[string]struct{}
	versions map[string]string // that the Store had when the stream began (RES-12)
	held     bool              // see wire.Subscription.Held
}

func newBesides() besides {
	answered, _ := simplelru.NewLRU[string, struct{}](maxAnswered, nil) // it fails for other sizes only
	return besides{answered: answered, types: make(map[string]*besideType)}
}

// keep applies a subscription that is not written.
func (t *besideType) keep(stream wire.StreamID, sub wire.Subscription) {
	k := t.kept[stream]
	if k == nil {
		if t.kept == nil {
			t.kept = make(map[wire.StreamID]*kept)
		}
		k = &kept{make(map[string]struct{}), sub.Versions, sub.Held}
		t.kept[stream] = k
	}
	for _, name := range sub.Unsubscribe {
		if delete(k.names, name); collection(name) {
			k.versions = nil // the Store lets go of the members
		}
	}
	for _, name := range sub.Subscribe {
		k.names[name] = struct{}{}
	}
}

func (t *besideType) wanted() bool {
	for _, k := range t.kept {
		if len(k.names) > 0 {
			return true
		}
	}
	return false
}

// forgotten is when a type that is not wanted any more is forgotten. One that was refused is not at once: otherwise
// clients that ask in turns would get round the pauses.
func (t *besideType) forgotten() time.Time {
	if t.backoff.Attempts == 0 {
		return t.due
	}
	return t.due.Add(maxRetryPause)
}

// delay has the next retry of a type wait. While nothing was answered the server may not let the relay in at all:
// then pauses are as for a server that is gone.
func (c *grpcClient) delay(t *besideType) {
	t.backoff.Base, t.backoff.Max = c.cfg.Backoff.Base, maxRetryPause
	if c.besides.answered.Len() == 0 {
		t.backoff.Max = c.cfg.Backoff.Max
	}
	t.due = time.Now().Add(t.backoff.Next())
}

// setAside finds the types that the server may have ended a stream for: those without an answer, and if there are
// some, only those that no other scope has an answer of.
func (c *grpcClient) setAside(k *streamLink, cause error) {
	b := &c.besides
	if c.cfg.APIType.PerType() || !k.line.serving() {
		return
	}
	now := time.Now()
	retried := (b.running > 0 || now.Sub(b.ended) < retryEndsFirst) && !now.Before(b.resume)
	if !refusedBy(cause) {
		if retried { // it may end a stream for the next one of its node
			c.pauseRetries(false)
		}
		return
	}
	var types, nowhere, added []string
	for typeURL := range k.asked {
		if b.answered.Contains(typeURL) {
			continue
		}
		types = append(types, typeURL)
		if !c.remote.up.answered.Contains(typeURL) {
			nowhere = append(nowhere, typeURL)
		}
	}
	if len(nowhere) > 0 {
		types = nowhere
	}
	if retried {
		c.pauseRetries(len(types) == 0)
	}
	for _, typeURL := range types {
		t := b.types[typeURL]
		if t == nil {
			t = new(besideType)
			b.types[typeURL] = t
		}
		if !t.refused {
			added = append(added, typeURL)
		}
		t.joined = false
		c.delay(t)
		c.note(typeURL, t, detail(cause))
	}
	if len(types) > 0 && b.answered.Len() > 0 {
		b.quiet = time.Now().Add(renewPause)
	}
	if len(added) > 0 {
		level, which := c.report.summary(added)
		c.report.log.Log(c.remote.ctx, level, "server ended the stream, maybe for types that it has not answered: asking for them beside it",
			which, slog.String("error", detail(cause)))
	}
}

// pauseRetries ends the retries, because of which a stream may have ended: they would have the next one end, too. certain:
// the server had no other reason.
func (c *grpcClient) pauseRetries(certain bool) {
	b, pause := &c.besides, renewPause
	if certain {
		pause = unansweredPause
	}
	b.alone, b.resume = certain, time.Now().Add(pause)
	for typeURL, t := range b.types {
		if t.stop == nil {
			continue
		}
		if t.stop(); certain {
			c.note(typeURL, t, oneStream)
		}
	}
	if !certain {
		return
	}
	c.report.log.Warn("types without an answer are left alone for a while", "reason", oneStream, "retry_in", unansweredPause)
}

// note has Status list a type that the server refuses.
func (c *grpcClient) note(typeURL string, t *besideType, reason string) {
	t.refused = true
	c.report.noteRefused(wire.StreamID{TypeURL: typeURL}, reason)
}

// welcome has Status list a type no longer.
func (c *grpcClient) welcome(typeURL string, t *besideType) {
	if t.refused {
		t.refused = false
		c.report.noteRefused(wire.StreamID{TypeURL: typeURL}, "")
	}
}

// keepAside reports whether a subscription must not be written now, and keeps it then. Names that the stream
// asked for before stay on the stream.
func (c *grpcClient) keepAside(k *streamLink, sub wire.Subscription) bool {
	b, now := &c.besides, time.Now()
	t := b.types[sub.TypeURL]
	if k.asks(sub.TypeURL) || t != nil && t.joined || t == nil && !c.risky(sub.TypeURL, now) {
		return false
	}
	if t == nil {
		t = &besideType{due: now}
		b.types[sub.TypeURL] = t
	}
	t.keep(k.line.id, sub)
	c.store.Withhold(k.line.id, sub.TypeURL, true)
	switch {
	case !t.wanted() && t.backoff.Attempts == 0:
		c.forget(sub.TypeURL, t) // clients may invent many
	case b.alone && now.Before(b.resume) && !t.refused:
		c.note(sub.TypeURL, t, oneStream)
	}
	return true
}

// risky reports whether a type is asked for beside the streams before it is asked for on them: it may end a stream
// that serves other types.
func (c *grpcClient) risky(typeURL string, now time.Time) bool {
	b := &c.besides
	return !c.cfg.APIType.PerType() && b.answered.Len() > 0 && (!xds.HasService(typeURL) || now.Before(b.quiet)) &&
		!b.answered.Contains(typeURL) && !c.remote.up.answered.Contains(typeURL)
}

func (c *grpcClient) forget(typeURL string, t *besideType) {
	c.welcome(typeURL, t)
	delete(c.besides.types, typeURL)
	for k := range c.links() {
		if k.line.serving() {
			c.store.Withhold(k.line.id, typeURL, false)
		}
	}
}

// lead has one type join a stream that begins and would carry nothing else, while no other stream is good: nobody
// loses anything, and the stream shows whether the server is there. It is the one that was refused least.
func (c *grpcClient) lead(id wire.StreamID, subs []wire.Subscription) {
	if c.good(beside(id)) {
		return
	}
	var first *besideType
	for _, sub := range subs {
		t := c.besides.types[sub.TypeURL]
		switch {
		case len(sub.Subscribe) == 0:
		case t == nil, t.joined:
			return
		case first == nil || t.backoff.Attempts < first.backoff.Attempts:
			first = t
		}
	}
	if first != nil {
		first.joined = true
	}
}

// began forgets types that had joined and that are not asked for any more.
func (c *grpcClient) began() {
	for typeURL, t := range c.besides.types {
		if t.joined && c.askedSince(typeURL).IsZero() {
			c.forget(typeURL, t)
		}
	}
}

// askedSince is since when a type is asked for on a stream; zero: it is not.
func (c *grpcClient) askedSince(typeURL string) (at time.Time) {
	for k := range c.links() {
		at = notify.Earlier(at, k.asked[typeURL])
	}
	return at
}

// took notes that the server answered a type. If it was kept aside it is subscribed to now; and with the first one that is
// answered, so are all that the server may serve: streams that ended before may have ended for other reasons.
func (c *grpcClient) took(typeURL string) {
	b := &c.besides
	if c.cfg.APIType.PerType() {
		return
	}
	if _, known := b.answered.Get(typeURL); known {
		return
	}
	first := b.answered.Len() == 0
	b.answered.Add(typeURL, struct{}{})
	c.remote.up.answered.Add(typeURL, struct{}{})
	for other, t := range b.types {
		if other == typeURL || first && xds.HasService(other) {
			if t.refused {
				c.report.log.Info("asking for a type with the others again", "type", other)
			}
			c.forget(other, t)
			c.join(other, t)
		}
	}
}

// join subscribes to the demand that was kept of a type.
func (c *grpcClient) join(typeURL string, t *besideType) {
	t.joined = true
	c.welcome(typeURL, t)
	for k := range c.links() {
		id := k.line.id
		if !k.line.serving() {
			continue
		}
		c.store.Withhold(id, typeURL, false)
		if was := t.kept[id]; was != nil {
			delete(t.kept, id)
			k.ask(wire.Subscription{TypeURL: typeURL, Subscribe: slices.Sorted(maps.Keys(was.names)), Versions: was.versions, Held: was.held})
		}
	}
	c.session.settle()
}

// withdraw forgets the demand that was kept for a stream that is over: with the next one Restart returns all demand anew.
func (c *grpcClient) withdraw(k *streamLink) {
	for _, t := range c.besides.types {
		delete(t.kept, k.line.id)
	}
}

// retryLink is the stream for which a type can be asked for beside, nil if there is none now. The server must be
// known to be there, unless there is nothing else to ask for.
func (c *grpcClient) retryLink(t *besideType) *streamLink {
	for k := range c.links() {
		if was := t.kept[k.line.id]; was != nil && len(was.names) > 0 && k.line.serving() && (k.line.established || len(k.asked) == 0) {
			return k
		}
	}
	return nil
}

// retryAt is when retry has something to do, zero if never.
func (c *grpcClient) retryAt() (at time.Time) {
	b := &c.besides
	for _, t := range b.types {
		switch {
		case t.joined, t.stop != nil:
		case !t.wanted():
			at = notify.Earlier(at, t.forgotten())
		case b.running < mostBeside && c.retryLink(t) != nil:
			at = notify.Earlier(at, notify.Later(t.due, b.resume))
		}
	}
	return at
}

// retry asks for the types that are due, those first that were refused least, and forgets those that are not wanted.
func (c *grpcClient) retry(now time.Time) {
	b := &c.besides
	var due []string
	for typeURL, t := range b.types {
		switch {
		case t.joined:
			if since := c.askedSince(typeURL); !since.IsZero() && now.Sub(since) >= stableAfter {
				c.welcome(typeURL, t) // the server lets it stand
			}
		case t.stop != nil:
		case !t.wanted():
			if !now.Before(t.forgotten()) {
				c.forget(typeURL, t)
			}
		case !now.Before(t.due) && !now.Before(b.resume) && c.retryLink(t) != nil:
			due = append(due, typeURL)
		}
	}
	slices.SortFunc(due, func(x, y string) int { return b.types[x].backoff.Attempts - b.types[y].backoff.Attempts })
	for _, typeURL := range due[:min(len(due), mostBeside-b.running)] {
		c.ask(typeURL, b.types[typeURL])
	}
}

// ask asks for a type on a stream of its own. A retry takes its place for the whole time, unless the server answers:
// otherwise a client that invents types would have the server take a stream for each.
func (c *grpcClient) ask(typeURL string, t *besideType) {
	k := c.retryLink(t)
	id, x, asker := k.line.id, k.line.replica, c.asker()
	names := slices.Sorted(maps.Keys(t.kept[id].names))
	q := &query{stream: id, typeURL: typeURL, names: names[:min(len(names), someNames)]}
	ctx, stop := context.WithCancel(c.remote.ctx)
	t.stop = stop
	c.besides.running++
	c.report.log.Debug("asking for a type beside the streams", "type", typeURL)
	end := time.Now().Add(stableAfter)
	c.remote.failback.wg.Go(func() {
		defer stop()
		_, err := c.session.safety.ask(ctx, asker, x, q, terms{deadline: end, heard: func(time.Time) {}})
		if err != nil {
			retry.Sleep(ctx, time.Until(end))
		}
		c.session.post(c.remote.ctx, func() { c.retried(typeURL, t, err) })
	})
}

// retried takes the result of a retry.
func (c *grpcClient) retried(typeURL string, t *besideType, err error) {
	b, now := &c.besides, time.Now()
	b.running, b.ended = b.running-1, time.Now()
	t.stop = nil
	switch {
	case b.types[typeURL] != t: // it is answered, or not wanted any more
	case err == nil:
		c.took(typeURL)
	case errors.Is(err, errSilent) && now.Before(b.quiet):
		t.due = b.quiet
	case errors.Is(err, errSilent):
		c.join(typeURL, t)
	case errors.Is(err, errUnwilling):
		reason := detail(c.headers.conceal(err))
		c.delay(t)
		c.note(typeURL, t, reason)
		c.report.log.Debug("server refuses a type", "type", typeURL, "error", reason)
	default: // it says nothing about the type
		t.backoff.Attempts = max(0, t.backoff.Attempts-1)
		c.delay(t)
	}
	c.retry(now)
}
