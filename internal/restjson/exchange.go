package restjson

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// patience is how long a poll that waits for the first answer to its subscription
// is left alone when the subscription changes once more. Without it a subscription
// that never rests would cancel every poll and never get an answer.
const patience = time.Second

// errSuperseded says that a poll was given up for another subscription.
var errSuperseded = errors.New("superseded")

// answered is what came of a poll.
type answered struct {
	response *Response
	conn     net.Conn // that it came over, nil if the client does not tell
	err      error
}

// exchange makes one poll, which it gives up if the subscription changes.
func (p *Poller) exchange(ctx context.Context, sub subscription, q *Poll) answered {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan answered, 1)
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		var a answered
		if err := p.cfg.Panics.Do(logs.PartUpstream, func() { a = p.ask(ctx, q) }); err != nil {
			a = answered{err: err}
		}
		done <- a
	})
	earliest := time.Now()
	if !q.claims() {
		earliest = earliest.Add(patience)
	}
	var giveUp <-chan time.Time
	for {
		select {
		case a := <-done:
			if a.err != nil && errors.Is(context.Cause(ctx), errSuperseded) {
				return answered{err: errSuperseded}
			}
			return a
		case <-p.changed:
			if giveUp == nil && p.subscription().generation != sub.generation {
				giveUp = time.After(time.Until(earliest))
			}
		case <-giveUp:
			cancel(errSuperseded)
		}
	}
}

// ask makes one poll.
func (p *Poller) ask(ctx context.Context, q *Poll) (a answered) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { a.conn = got.Conn },
	})
	request, err := q.NewRequest(ctx, p.cfg.Base)
	if err != nil {
		return answered{err: err}
	}
	response, err := p.cfg.Client.Do(request)
	if err != nil {
		return answered{err: err}
	}
	a.response, a.err = ReadResponse(response, q.TypeURL, p.cfg.MaxResponse)
	return a
}
