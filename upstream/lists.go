package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Some servers of the state of the world answer a request with the resources that are newer than the version that it
// presents, and no others: go-control-plane's LinearCache before 0.14 is one. On a client's own stream that is enough, since
// its first request presents no version. On the relay's stream a name that another client adds stays unanswered, and
// a list lacks the resources that did not change. So the relay asks once more, without a version, on a stream of its own.

const (
	// learnedLasts is how long the manner that an endpoint showed counts.
	learnedLasts = time.Hour
	// turnLook is how often a session looks whether the server is asked something else no longer.
	turnLook = 50 * time.Millisecond
)

// manner is how an endpoint answers requests of the state of the world for a type.
type manner string

const (
	unknownManner manner = ""
	partialLists  manner = "partial lists"      // with what is newer than the version that a request presents
	wholeLists    manner = "whole lists"        // of a full-state type: with all that there is
	oneStreamOnly manner = "on no other stream" // it answers on no stream beside the one that a session has
)

var (
	errNoTurn = errors.New("the server is asked something else for too long")
	errMoot   = errors.New("the answer is known by now")
)

// lists has how each endpoint of an upstream answers requests of the state of the world, for all sessions. One
// session asks at a time. Its methods may be called from any goroutine.
type lists struct {
	turn chan struct{} // one slot

	mu    sync.Mutex
	known map[listsOf]learned
}

type listsOf struct {
	endpoint *endpoint
	typeURL  string
}

type learned struct {
	manner manner
	at     time.Time
}

func newLists() *lists {
	return &lists{turn: make(chan struct{}, 1), known: make(map[listsOf]learned)}
}

// of is how a replica's endpoint answers for a type.
func (a *lists) of(x *replica, typeURL string) manner {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.known[listsOf{x.endpoint, typeURL}]; time.Since(l.at) < learnedLasts {
		return l.manner
	}
	return unknownManner
}

// learn notes how a replica's endpoint answers for a type, and reports whether that is news. That it did not answer on
// another stream says less than that it once did.
func (a *lists) learn(x *replica, typeURL string, m manner) (news bool) {
	was := a.of(x, typeURL)
	if m == oneStreamOnly && was == partialLists {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxTypes { // clients choose the types
		clear(a.known)
	}
	a.known[listsOf{x.endpoint, typeURL}] = learned{m, time.Now()}
	return m != was
}

// enter waits until by may ask a replica, and until it is asked nothing else. The error is why it may not.
func (a *lists) enter(ctx context.Context, x *replica, by any) (leave func(), err error) {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, errNoTurn
	}
	for !x.answers.begin(by, time.Now(), false) {
		if err = errNoTurn; x.answers.due().IsZero() {
			err = errUnwilling // another stream costs it the one that it has
		} else if retry.Sleep(ctx, turnLook); ctx.Err() == nil {
			continue
		}
		<-a.turn
		return nil, err
	}
	return func() { x.answers.done(); <-a.turn }, nil
}

// listCheck is a query on a stream of its own.
type listCheck struct {
	query *query
	moot  func(manner) bool // with what is known when the turn has come, nobody needs to ask
	// learn says what the answer shows of the endpoint. It is called before the next one has its turn; nil: not at all.
	learn func(answer *wire.Response) manner
	// then takes the answer on the session's owner, unless the link has ended.
	then func(answer *wire.Response, err error)
}

// checksLists reports whether the server is asked a second time for resources that it may have left out.
func (c *grpcClient) checksLists() bool {
	return c.cfg.APIType.State() && !c.cfg.TrustLists && c.cfg.Keepalive.Response > 0
}

// check asks in the background. A session waits for its turn for as long as for the answer.
func (k *streamLink) check(x listCheck) {
	c, r, at, asker := k.client, k.client.remote, k.line.replica, k.client.asker()
	r.failback.wg.Go(func() {
		answer, err := k.checkList(at, asker, &x)
		c.session.post(k.stream.ctx, func() { x.then(answer, err) })
	})
}

func (k *streamLink) checkList(at *replica, a asker, x *listCheck) (*wire.Response, error) {
	ctx, r := k.stream.ctx, k.client.remote
	wait := r.up.cfg.Keepalive.Response
	turn, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	leave, err := r.up.lists.enter(turn, at, r)
	if errors.Is(err, errUnwilling) {
		k.learn(at, x.query.typeURL, oneStreamOnly)
	}
	if err != nil {
		return nil, err
	}
	defer leave()
	if x.moot(r.up.lists.of(at, x.query.typeURL)) {
		return nil, errMoot
	}
	answer, err := r.session.safety.ask(ctx, a, at, x.query, terms{
		deadline: time.Now().Add(wait), heard: func(t time.Time) { r.up.heard(at, t) },
	})
	if err == nil && answer == nil {
		err = errUnwilling // nobody can read what it says
	}
	switch {
	case errors.Is(err, errSilent), errors.Is(err, errUnwilling):
		k.learn(at, x.query.typeURL, oneStreamOnly)
	case err == nil && x.learn != nil:
		k.learn(at, x.query.typeURL, x.learn(answer))
	}
	return answer, err
}

// learn notes how an endpoint answers for a type, and tells operators if that is news. Any goroutine may call it.
func (k *streamLink) learn(x *replica, typeURL string, m manner) {
	r := k.client.remote
	if m == unknownManner || !r.up.lists.learn(x, typeURL, m) {
		return
	}
	log := r.report.log.With("endpoint", x.name, "type", typeURL, "for", learnedLasts)
	switch m {
	case partialLists:
		log.Info("endpoint answers with what is newer than the version presented: asking it for the rest on streams without a version")
	case wholeLists:
		log.Info("endpoint sends whole lists: what they lack is gone")
	default:
		log.Info("endpoint does not answer on a second stream: not asking it there whether it left out something")
	}
}
