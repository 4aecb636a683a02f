package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// pollLink is a line's poller, from its first poll to its end. It belongs to the session's
// owner.
type pollLink struct {
	client   *restClient
	line     *line
	poller   *restjson.Poller
	exchange *exchange
	ctx      context.Context // of the poller
	stop     context.CancelFunc
	wg       sync.WaitGroup // the poller's goroutine

	names    stateNames
	list     []string  // the names that have room, in order, as the poller was given them last
	accepted []string  // the names for which the last accepted response was
	awaiting bool      // the server has not answered for list
	added    time.Time // when names were last added (UPS-3)
	since    time.Time // awaiting: all that was asked for before was answered
	again    bool      // names are wanted again that were asked for
	standIn  bool      // list is a name without room, since no name has any
}

// connect implements client: it begins to poll for everything wanted.
func (c *restClient) connect(l *line) (link, error) {
	k := &pollLink{client: c, line: l, names: newStateNames(pollSize), since: time.Now(), awaiting: true}
	subs := c.store.Restart(l.id, 0)
	k.take(subs)
	if !c.store.StreamWanted(l.id) {
		c.store.Lost(l.id) // only unsubscriptions were left, and Restart has dropped their names
		c.remote.up.entrance.leave(l.ticket)
		return nil, nil
	}
	k.list, _ = k.fit()
	k.ctx, k.stop = context.WithCancel(c.remote.ctx)
	k.exchange = newExchange(c.web, l.replica, c.headers, func(kind RequestKind) { c.report.wrote(l.id.TypeURL, kind) })
	var err error
	if k.poller, err = restjson.NewPoller(k.config(subs)); err != nil {
		k.stop()
		c.store.Lost(l.id)
		return nil, err
	}
	l.opened()
	l.returned(false, c.cfg.ConnectTimeout+probeStands)
	l.asks(time.Now(), true, false)
	k.wg.Go(func() {
		// Its error is the context's. A poller that panicked is over.
		if err := c.session.safety.panics.Do(logs.PartUpstream, func() { _ = k.poller.Run(k.ctx) }); err != nil {
			c.session.post(k.ctx, func() { k.lost(err) })
		}
	})
	return k, nil
}

// config is the poller's. subs are its first subscriptions.
func (k *pollLink) config(subs []wire.Subscription) restjson.PollerConfig {
	cfg, typeURL := k.client.cfg, k.line.id.TypeURL
	return restjson.PollerConfig{
		Client: &http.Client{
			Transport: k.exchange, Timeout: cfg.Poll.Timeout,
			// A poll carries the node: it goes where the configuration says and nowhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Base: k.client.web.base(k.line.replica), TypeURL: typeURL, Node: k.client.node, Names: k.list,
		FullState:   cfg.FullState[typeURL],
		Held:        slices.ContainsFunc(subs, func(sub wire.Subscription) bool { return sub.Held }),
		Interval:    cfg.Poll.Interval,
		BackoffBase: cfg.Backoff.Base, BackoffMax: cfg.Backoff.Max,
		Batch:       time.Nanosecond, // the session has gathered already
		MaxResponse: int64(cfg.MaxReceiveSize), Handler: k,
	}
}

// close implements link.
func (k *pollLink) close() {
	k.stop()
	k.wg.Wait()
}

// subscribed implements link.
func (k *pollLink) subscribed(string) time.Time { return k.added }

// leave implements link.
func (k *pollLink) leave() { k.line.end(ReasonUnwanted) }

// silent reports whether a name has been without an answer for so long. While names come and
// go without end no answer is for all of them, but each is for the names that were asked
// for when its poll began.
func (k *pollLink) silent(now time.Time, after time.Duration) bool {
	return k.awaiting && now.Sub(k.since) >= after
}

// take applies changed subscriptions.
func (k *pollLink) take(subs []wire.Subscription) {
	k.names.gone = nil
	for _, sub := range subs {
		for _, name := range sub.Unsubscribe {
			k.names.remove(name)
		}
		if len(sub.Subscribe) > 0 {
			k.added = time.Now()
		}
		for _, name := range sub.Subscribe {
			k.names.add(name)
		}
	}
}

// demand implements link.
func (k *pollLink) demand() {
	store, l := k.client.store, k.line
	subs, ok := store.TakeDemand(l.id)
	if !ok && l.again(alonePause) {
		return
	}
	if !store.StreamWanted(l.id) {
		k.leave()
		return
	}
	k.take(subs)
	list, changed := k.fit()
	if !changed {
		// A name that is wanted again (TTL-5) does not change the poll, and the server
		// would answer that nothing changed.
		k.again = k.again || slices.ContainsFunc(subs, func(sub wire.Subscription) bool {
			return slices.ContainsFunc(sub.Subscribe, func(name string) bool { return has(list, name) })
		})
		if k.again {
			l.again(alonePause)
		}
		return
	}
	if !k.awaiting {
		k.awaiting, k.since = true, time.Now()
	}
	k.list = list
	k.poller.SetNames(list)
	k.line.asks(time.Now(), true, false)
}

// polled are the names as a poll says them: none for everything of some types.
func (k *pollLink) polled(names []string) []string {
	if k.client.cfg.FullState[k.line.id.TypeURL] && slices.Equal(names, []string{wildcard}) {
		return nil
	}
	return names
}

// fit returns the names that a poll has room for, and whether they are others than before. If a poll for all would pass
// the limit, it has the Store drop names without a subscriber. If that does not suffice, the newest are left out
// (RES-17). A poll for no name would ask for everything: so one is said, if none has room.
func (k *pollLink) fit() (list []string, changed bool) {
	c, id := k.client, k.line.id
	limit := c.cfg.MaxRequestSize
	most := limit - c.nodeSize
	if over := k.names.total - most; over > 0 && c.store.Shed(id, id.TypeURL, over+limit/8) {
		subs, _ := c.store.TakeDemand(id) // names that begin anew were asked for before
		k.take(subs)
	}
	out, in := k.names.fit(most, min(most/8, answerRoom), k.names.total <= most, k.list)
	if len(out)+len(in) > 0 {
		c.store.LeaveOut(id, id.TypeURL, out, in)
	}
	if k.names.leftOut > 0 && !k.line.warned.large {
		k.line.warned.large = true
		c.report.noteLarge(id.TypeURL, len(k.names.names), k.names.leftOut, k.names.total+c.nodeSize, limit)
	}
	changed, stood := len(k.names.changed) > 0, k.standIn
	if k.standIn = k.names.none() && k.names.leftOut > 0; k.standIn {
		list = []string{slices.Min(k.names.lacking())}
		return list, !slices.Equal(list, k.list)
	}
	list = k.names.listed()
	return list, changed || len(list) != len(k.list) || stood && !slices.Equal(list, k.list)
}

// pollSize is what a name takes in a poll at most: quotes and a comma.
func pollSize(name string) int { return len(name) + len(`"",`) }

// meant returns the names that resource_names stand for.
func meant(names []string) []string {
	if len(names) == 0 {
		return []string{wildcard}
	}
	return names
}

// answered counts the server as there. It has answered for names, in a poll that began at
// that time.
func (k *pollLink) answered(names []string, at, begun time.Time) {
	if slices.Equal(meant(names), k.list) {
		k.awaiting = false
	}
	if begun.After(k.since) {
		k.since = begun
	}
	k.present(at)
}

// present counts the server as there.
func (k *pollLink) present(at time.Time) {
	l := k.line
	first := !l.established
	l.answered(at)
	if first {
		l.backoff.Reset()
		l.failed = nil
		k.client.remote.up.replicas.found(l.replica, true)
		l.count()
	}
}

// lost ends the poller, whose poll failed, and sees to the next (REST-3, OPS-2, LOC-6). A
// server that only does not serve the type has answered, and is tried again.
func (k *pollLink) lost(cause error) {
	c, l := k.client, k.line
	cause = c.headers.conceal(cause)
	err := l.failure(pollReason(cause), cause)
	stay := l.established && !err.Reason.repeats()
	if notServed(cause) {
		stay = true
		c.remote.up.heard(l.replica, time.Now())
		l.refuse(cause)
	}
	_, unreachable := errors.AsType[unreachableError](cause)
	l.fail(err, unreachable, stay)
	c.session.settle()
}
