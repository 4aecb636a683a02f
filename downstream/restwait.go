package downstream

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/ack"
)

// mergeTime is how long a held poll waits for further changes before the answer.
const mergeTime = 5 * time.Millisecond

// run returns the answer when the client lacks something, or the time of the poll is over (REST-1). It ends
// the turn of the client to join, if there is one, before it waits.
func (p *poll) run(ctx context.Context, turn Turn) *answer {
	if leave, _ := p.reroute(); leave != nil { // Reroute rings members only, and the poll has just become one
		return leave
	}
	p.look()
	warned := p.warned()
	if p.request.GetErrorDetail() != nil {
		p.rejected()
	} else if v := p.request.GetVersionInfo(); warned && p.request.GetResponseNonce() == p.nonce() || v != "" && p.shows(v) {
		p.tell(ack.Outcome{Kind: ack.Accepted})
		for _, c := range p.places {
			p.routing.routes.Accepted(c.Store(), p.request.GetTypeUrl())
		}
	}
	if a := p.due(); a != nil {
		return a
	}
	last := p.polling.pollers.of(p.client).last
	rejects := last != nil && last.Nonce == p.nonce()
	p.standing.edit(func() { p.rejects = rejects })
	done(turn)
	return p.wait(ctx)
}

// due returns the answer that the poll has now; nil if there is none.
func (p *poll) due() *answer {
	open, err := p.shared.unserved(p.places, REST)
	if err != nil {
		return refused(err)
	}
	if !open && p.news() {
		return p.answer()
	}
	return nil
}

// wait returns the answer to a held poll.
func (p *poll) wait(ctx context.Context) *answer {
	end := time.NewTimer(p.patience())
	defer end.Stop()
	again, stop := p.polling.judging.recheck(p.came)
	defer stop()
	drain := p.polling.closing.drained
	var merged, leave, moves <-chan time.Time
	var away *answer // when moves is due
	for {
		select {
		case <-p.bell:
			if merged == nil {
				merged = time.After(mergeTime)
			}
			continue
		case <-merged:
			merged = nil
		case <-end.C:
			if moves != nil {
				return away
			}
			return p.end()
		case <-again:
			if err := p.polling.judging.judged(p.came); err != nil {
				return expelled(err)
			}
			continue
		case <-drain:
			drain = nil
			leave = time.After(p.polling.closing.spread.moment())
			continue
		case <-moves:
			return away
		case <-leave:
			return &answer{code: http.StatusNotModified, leave: true}
		case <-p.polling.closing.stopped:
			return draining()
		case <-ctx.Done():
			return gone()
		}
		if leave, reason := p.reroute(); leave != nil && (moves == nil || reason.refuses()) {
			away, moves = leave, time.After(p.shared.plans.moment(reason))
		}
		p.look()
		if a := p.due(); a != nil {
			return a
		}
	}
}

// sentAway returns the answer to a poll whose names moved to another store. A client without a
// version gets an error: nothing of it can be unchanged.
func (p *poll) sentAway() *answer {
	if p.request.GetVersionInfo() == "" {
		return refused(errMoved)
	}
	return unchanged()
}

// end returns the answer when the time is over. It has the content if that changed in the last
// moment, and the error if the content cannot be sent.
func (p *poll) end() *answer {
	p.waits.over = true
	p.look()
	if a := p.due(); a != nil {
		return a
	}
	if p.held.Digest == p.failed {
		return p.answer()
	}
	return unchanged()
}

// patience returns how long the poll is held: a little less than configured, and a different time for
// each poll, so that a fleet does not poll in step.
func (p *poll) patience() time.Duration {
	most := p.shared.limits.Load().RESTWait
	return most - rand.N(most/10+1) //nolint:gosec // spreading, not secrecy
}

// reroute compares where the poll's names live with the plan in force, if that is a new one. It
// returns the answer of a poll that has to go, and why; nil if the poll goes on.
func (p *poll) reroute() (*answer, MoveEnd) {
	next, err := p.routing.next(&p.shared.plans)
	if err != nil {
		p.shared.observer.Moved(REST)
		return refused(err), EndUnverified
	}
	if next == nil {
		return nil, ""
	}
	if reason, moved := p.moved(next); moved {
		p.routing.narrow(next, p.places)
		next.Close()
		p.shared.observer.Moved(REST)
		return p.sentAway(), reason
	}
	p.routing.adopt(next)
	judgedBy(next.Access(), p.places, false)
	return nil, ""
}

// moved reports whether other routes lead any of the poll's names to another store, and why it has to go then.
func (p *poll) moved(next Routes) (MoveEnd, bool) {
	typeURL := p.request.GetTypeUrl()
	if differs(p.routing.routes, next, typeURL) {
		return EndNarrowed, true
	}
	for _, name := range p.asked() {
		if reason, moved := moved(next, typeURL, name, storeOf(p.places, typeURL, name)); moved {
			return reason, true
		}
	}
	return "", false
}
