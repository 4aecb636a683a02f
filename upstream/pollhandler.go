package upstream

import (
	"errors"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// pollLink is also its poller's restjson.Handler. The poller's goroutine calls it, and
// waits for the session's owner.
var _ restjson.Handler = (*pollLink)(nil)

// tell has the owner run f, unless it has ended the poller.
func (k *pollLink) tell(f func()) { k.client.session.post(k.ctx, f) }

// OnResponse implements restjson.Handler.
func (k *pollLink) OnResponse(r *restjson.Response, names []string) error {
	at, begun := time.Now(), k.exchange.begun
	reason := make(chan error, 1)
	k.tell(func() { reason <- k.respond(r, names, at, begun) })
	select {
	case err := <-reason:
		return err
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
}

// OnUnchanged implements restjson.Handler. It is about the names of the last accepted
// response. Servers without resources of the type answer so to the first poll too, which
// presents no version: then collections were answered, and nothing was removed. A relay answers so, too, while
// it does not know the answer yet: then nothing was answered, and the clocks of unanswered names run, as on a
// stream that stands (RES-7).
func (k *pollLink) OnUnchanged() {
	at, begun, relay := time.Now(), k.exchange.begun, k.exchange.relay
	k.tell(func() {
		c, id := k.client, k.line.id
		names := k.accepted
		if names == nil {
			names = k.list
		}
		if k.accepted == nil && !relay {
			// It cannot be rejected, there is nothing in it.
			_ = c.store.Apply(id, &wire.Response{TypeURL: id.TypeURL}, at)
		}
		k.answered(names, at, begun)
		c.session.settle()
	})
}

// OnError implements restjson.Handler.
func (k *pollLink) OnError(err error) {
	at, begun := time.Now(), k.exchange.begun
	k.tell(func() {
		undecodable, ok := errors.AsType[*restjson.UndecodableError](err)
		if !ok {
			k.lost(err)
			return
		}
		k.responded(0, at)
		k.answered(k.list, at, begun)
		k.reject(undecodable.Nonce, err, at)
		k.client.session.settle()
	})
}

// responded counts a response.
func (k *pollLink) responded(resources int, at time.Time) {
	k.client.report.responded(k.line.id.TypeURL, resources, 0, int(k.exchange.received.Load()), at)
}

// respond takes a response and gives the reason for which it is rejected (ACK-6).
func (k *pollLink) respond(r *restjson.Response, names []string, at, begun time.Time) error {
	c, l := k.client, k.line
	k.responded(len(r.Resources), at)
	if r.Discarded != "" && l.warned.discarded != r.Discarded {
		c.report.log.Warn("response holds what this build does not know and JSON cannot pass on", "type", l.id.TypeURL, "first", r.Discarded)
	}
	l.warned.discarded = r.Discarded
	k.answered(names, at, begun)
	err := c.session.safety.apply(c.store, l.id, &r.Response, at)
	if err != nil {
		k.reject(r.Nonce, err, at)
	} else {
		k.accepted = meant(names)
		c.delivered.listed(l.id, l.id.TypeURL, k.polled(k.accepted))
		c.delivered.take(l.id, &r.Response, int(k.exchange.received.Load()))
		k.exchange.answer(KindAck)
	}
	c.session.settle()
	return err
}

// reject notes that a response was rejected. The next poll tells the server.
func (k *pollLink) reject(nonce string, reason error, at time.Time) {
	k.exchange.answer(KindNack)
	k.client.report.noteRejected(k.line.id.TypeURL, nonce, reason, at)
}
