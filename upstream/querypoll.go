package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// pollAsker asks by polls. All fields are immutable.
type pollAsker struct {
	web     *web
	node    *corev3.Node
	headers headers
}

// rounds is how often a server is asked again that is to stand.
const rounds = 4

// ask implements asker: a poll without a version. There is no stream that
// could stand: where stay is set the server is asked again, several times until then.
func (a *pollAsker) ask(ctx context.Context, x *replica, q *query, t terms) (*wire.Response, error) {
	wait := time.Until(t.deadline)
	err := a.poll(ctx, x, q, t.deadline, t.heard)
	for i := 0; err == nil && t.stay > 0 && i < rounds; i++ {
		retry.Sleep(ctx, t.stay/rounds)
		err = a.poll(ctx, x, q, time.Now().Add(wait), func(time.Time) {})
	}
	return nil, err
}

// poll asks once.
func (a *pollAsker) poll(ctx context.Context, x *replica, q *query, deadline time.Time, heard func(time.Time)) error {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, errSilent)
	defer cancel()
	poll := restjson.Poll{Node: a.node, TypeURL: q.typeURL, ResourceNames: q.names}
	req, err := poll.NewRequest(ctx, a.web.base(x))
	if err != nil {
		return err
	}
	client := &http.Client{
		Transport:     newExchange(a.web, x, a.headers, func(RequestKind) {}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req) //nolint:bodyclose // ReadResponse does
	if err == nil {
		_, err = restjson.ReadResponse(resp, q.typeURL, int64(a.web.cfg.MaxReceiveSize))
	}
	refused, isRefusal := errors.AsType[*restjson.StatusError](err)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errSilent):
		return errSilent
	case isRefusal && pollReason(refused) == ReasonUnavailable: // a proxy whose server is gone
		return err
	case isRefusal:
		heard(time.Now())
		return fmt.Errorf("%w: %w", errUnwilling, err)
	case err == nil, errors.Is(err, restjson.ErrUnchanged):
		heard(time.Now())
		return nil
	}
	if _, undecodable := errors.AsType[*restjson.UndecodableError](err); undecodable {
		heard(time.Now())
	}
	return err
}
