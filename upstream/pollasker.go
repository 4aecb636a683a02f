package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/backoff"
	"github.com/xdsrelay/xdsrelay/internal/contain"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

// pollAsker asks by polls. All fields are immutable.
type pollAsker struct {
	web     *web
	node    *corev3.Node
	headers headers
	panics  *contain.Panics
}

// ask implements asker: one poll for each type, without a version. There is no stream that
// could stand: where stay is set the server is asked again, several times until then.
func (a *pollAsker) ask(ctx context.Context, x *replica, q *question, t terms) (reply, error) {
	heard, wait := onlyFirst(t.heard), time.Until(t.deadline)
	all, err := a.round(ctx, x, q, t.deadline, heard)
	if err != nil || t.stay == 0 {
		return all, err
	}
	for range rounds {
		backoff.Sleep(ctx, t.stay/rounds)
		if _, err = a.round(ctx, x, q, time.Now().Add(wait), heard); err != nil {
			return all, err
		}
	}
	return all, nil
}

// rounds is how often a server is asked again that is to stand.
const rounds = 4

// round asks for each type once.
func (a *pollAsker) round(ctx context.Context, x *replica, q *question, deadline time.Time, heard func(time.Time)) (reply, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, errSilent)
	defer cancel()
	var all reply
	var failed error
	var mu sync.Mutex // guards all and failed
	var wg sync.WaitGroup
	for _, p := range q.parts {
		wg.Go(func() {
			bytes, err := a.poll(ctx, x, p, heard)
			mu.Lock()
			defer mu.Unlock()
			all.bytes += bytes
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return all, failed
}

// poll asks for one type. A panic in it is an error.
func (a *pollAsker) poll(ctx context.Context, x *replica, p part, heard func(time.Time)) (bytes int, err error) {
	defer a.panics.Catch(contain.Upstream, func(e *contain.Error) { err = e })
	names := p.names
	e := newExchange(a.web, x, a.headers, func(RequestKind) {})
	poll := restjson.Poll{Node: a.node, TypeURL: p.typeURL, ResourceNames: names}
	req, err := poll.NewRequest(ctx, a.web.base(x))
	if err != nil {
		return 0, err
	}
	client := &http.Client{Transport: e, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req) //nolint:bodyclose // ReadResponse does
	if err == nil {
		_, err = restjson.ReadResponse(resp, p.typeURL, int64(a.web.cfg.MaxReceiveSize))
	}
	bytes = int(e.received.Load())
	refused, isRefusal := errors.AsType[*restjson.StatusError](err)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errSilent):
		return bytes, errSilent
	case isRefusal && pollReason(refused) == ReasonUnavailable: // a proxy whose server is gone
		return bytes, err
	case isRefusal:
		heard(time.Now())
		return bytes, fmt.Errorf("%w: %w", errUnwilling, err)
	case err == nil, errors.Is(err, restjson.ErrUnchanged):
		heard(time.Now())
		return bytes, nil
	}
	if _, undecodable := errors.AsType[*restjson.UndecodableError](err); undecodable {
		heard(time.Now())
	}
	return bytes, err
}
