package restjson

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// errRunning is what a second Run gives.
var errRunning = errors.New("restjson: the poller was started already")

// Poller polls one type at one server (REST-3). To the server each poll stands for
// itself, so everything that a stream would remember is here: what was accepted
// last, and what was rejected.
//
//   - A poll presents the last accepted version if the subscription is still the
//     one that it answered, since a server would answer 304 for resources that were
//     never sent otherwise, and if there was no failure since: a server may have
//     come back with the same version and other contents (ACK-4).
//   - So it is with the nonce. A relay holds a poll that presents the digest of what
//     it has. Of names that do not exist it has nothing more: the poll that first
//     asks for them was held too, and nobody could tell that they were answered.
//   - A server may also come back between two polls, unnoticed. So 304 counts only if
//     it came over the connection of the poll before; else everything is asked for
//     again (ACK-4). Where connections are not kept, that is so with every poll.
//     A proxy that keeps its connection while the server behind it changes hides
//     all that.
//   - A client that holds something and may be talking to another server now, or asks
//     for other names, presents [wire.Unconfirmed] instead: a relay that was started again
//     would take a poll without a version for that of a client with nothing to lose,
//     and answer before it knows all (RES-2).
//   - A rejection goes out with the next poll, which is made after a back-off, and
//     is forgotten when that was answered (STR-8).
//   - The time between polls counts from the end of the last. An answer that took
//     longer than that was held by the server until there was news: the next
//     poll follows at once.
type Poller struct {
	// Immutable after NewPoller.
	cfg PollerConfig

	started atomic.Bool
	changed chan struct{} // one slot: the subscription may be another

	// Owned by the goroutine in Run.
	backoff   retry.Backoff
	asked     uint64 // the generation of the last poll
	accepted  string // version_info of the last accepted response, "" if it is not to be presented
	holds     bool   // something was accepted, here or before
	acceptedG uint64 // the generation that accepted answers
	nonce     string // of the last response
	nonceG    uint64 // the generation that it answers
	rejection *statuspb.Status
	conn      net.Conn // that the last answer came over; nil: begun anew, or not known
	unkept    bool     // the last answer came over another connection than the one before

	mu  sync.Mutex
	sub subscription // guarded by mu; its names are replaced, never changed
}

// subscription is what is asked for.
type subscription struct {
	names      []string
	generation uint64 // another one for each other set of names
}

// NewPoller makes a poller. It does nothing until Run is called.
func NewPoller(cfg PollerConfig) (*Poller, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Poller{
		cfg:     cfg,
		changed: notify.New(),
		holds:   cfg.Held,
		backoff: retry.Backoff{Base: cfg.BackoffBase, Max: cfg.BackoffMax},
	}
	p.SetNames(cfg.Names)
	return p, nil
}

// SetNames replaces the subscription, with "*" for the wildcard. It may be called
// from any goroutine. What is new is asked for within milliseconds, and a poll that
// the server holds is given up for it; only after a failure it waits for the
// back-off. With no names at all nothing is polled: in a request that would be a
// wildcard.
func (p *Poller) SetNames(names []string) {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(names, p.sub.names) {
		return
	}
	p.sub = subscription{names: names, generation: p.sub.generation + 1}
	notify.Signal(p.changed)
}

func (p *Poller) subscription() subscription {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sub
}

// Run polls until ctx ends, whose error it returns, with no poll left under way. It
// can be called once.
func (p *Poller) Run(ctx context.Context) error {
	if !p.started.CompareAndSwap(false, true) {
		return errRunning
	}
	for pause := (pause{}); ; {
		sub, err := p.wait(ctx, pause)
		if err != nil {
			return err
		}
		pause = p.poll(ctx, sub)
	}
}

// pause is what lies between two polls.
type pause struct {
	length time.Duration
	// whole says that no change of the subscription ends it: the server failed.
	whole bool
}

// wait gives the subscription of the next poll when it is time for it.
func (p *Poller) wait(ctx context.Context, pause pause) (subscription, error) {
	due := time.Now().Add(pause.length)
	timer := time.NewTimer(pause.length)
	defer timer.Stop()
	idle := false // nobody subscribes to anything: until that changes there is no next poll
	for {
		// Asked of the generation and not of the channel, which may still tell of
		// what the last poll has asked for.
		if !pause.whole && p.subscription().generation != p.asked {
			if soon := time.Now().Add(p.cfg.Batch); idle || soon.Before(due) {
				due, idle = soon, false
				timer.Reset(p.cfg.Batch)
			}
		}
		select {
		case <-ctx.Done():
			return subscription{}, ctx.Err()
		case <-p.changed:
		case <-timer.C:
			sub := p.subscription()
			if len(sub.names) > 0 {
				return sub, nil
			}
			idle, pause.whole = true, false
			p.asked = sub.generation
		}
	}
}

// poll asks once, hands on what comes of it, and gives the pause that follows.
func (p *Poller) poll(ctx context.Context, sub subscription) pause {
	p.asked = sub.generation
	question := p.question(sub)
	began := time.Now()
	a := p.exchange(ctx, sub, question)
	took := time.Since(began)
	err := a.err
	undecodable, isUndecodable := errors.AsType[*UndecodableError](err)
	if err == nil || isUndecodable || errors.Is(err, ErrUnchanged) {
		p.unkept = p.conn != nil && a.conn != p.conn
		p.conn = a.conn
		if p.unkept {
			p.accepted = "" // it may be another server's
		}
	} else {
		p.unkept, p.conn = false, nil // giving a poll up may cost its connection
	}
	switch {
	case err == nil:
		return p.take(a.response, sub, question.ResourceNames, took)
	case ctx.Err() != nil, errors.Is(err, errSuperseded):
		return pause{length: p.cfg.Batch} // nobody's failure
	case errors.Is(err, ErrUnchanged) && p.unkept && question.claims():
		return pause{} // asked again for everything
	case errors.Is(err, ErrUnchanged):
		p.rejection = nil
		p.backoff.Reset()
		p.cfg.Handler.OnUnchanged()
		return p.rest(took)
	case isUndecodable:
		p.cfg.Handler.OnError(err)
		return p.reject(undecodable.Nonce, sub, err)
	default:
		// The next poll may reach another server, which did not send what came before.
		p.accepted, p.nonce, p.rejection = "", "", nil
		p.cfg.Handler.OnError(err)
		return pause{length: p.backoff.Next(), whole: true}
	}
}

// question makes the poll for a subscription.
func (p *Poller) question(sub subscription) *Poll {
	q := &Poll{
		Node: p.cfg.Node, TypeURL: p.cfg.TypeURL, ResourceNames: sub.names, ErrorDetail: p.rejection,
	}
	if p.nonceG == sub.generation || p.rejection != nil {
		q.ResponseNonce = p.nonce
	}
	if p.cfg.FullState && slices.Equal(sub.names, []string{"*"}) {
		q.ResourceNames = nil
	}
	switch {
	case p.holds && (p.accepted == "" || p.unkept || p.acceptedG != sub.generation):
		q.VersionInfo = wire.Unconfirmed
	case p.acceptedG == sub.generation:
		q.VersionInfo = p.accepted
	}
	return q
}

// take hands a response to the owner.
func (p *Poller) take(r *Response, sub subscription, names []string, took time.Duration) pause {
	if err := p.cfg.Handler.OnResponse(r, names); err != nil {
		return p.reject(r.Nonce, sub, err)
	}
	p.accepted, p.acceptedG = r.Version, sub.generation
	p.nonce, p.nonceG, p.rejection = r.Nonce, sub.generation, nil
	p.holds = true
	p.backoff.Reset()
	return p.rest(took)
}

// reject keeps what the next poll is to tell.
func (p *Poller) reject(nonce string, sub subscription, reason error) pause {
	p.nonce, p.nonceG = nonce, sub.generation
	p.rejection = &statuspb.Status{
		Code: int32(codes.InvalidArgument), Message: logs.Excerpt(oneLine(reason.Error()), logs.ReasonBytes),
	}
	return pause{length: p.backoff.Next()}
}

// rest is the pause after a poll that went well.
func (p *Poller) rest(took time.Duration) pause {
	if took >= p.cfg.Interval {
		return pause{}
	}
	return pause{length: retry.Spread(p.cfg.Interval)}
}
