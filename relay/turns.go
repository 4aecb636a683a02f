package relay

import (
	"context"
	"sync/atomic"

	"github.com/xdsrelay/xdsrelay/internal/crowd"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// beneficiary is the client for which a session works. It may be read by any goroutine.
type beneficiary struct{ who atomic.Pointer[crowd.Who] }

func (b *beneficiary) set(who crowd.Who) { b.who.Store(&who) }

// get gives the client; zero: nobody knows.
func (b *beneficiary) get() crowd.Who {
	if who := b.who.Load(); who != nil {
		return *who
	}
	return crowd.Who{}
}

// turns are those of a session. Addresses and identities take turns, and then the sessions of each (LIM-2):
// who has ten thousand scopes keeps the scopes of others waiting for one response at a time.
type turns struct {
	of      *load.Turns
	session *session
}

// turnsOf gives the turns of a session; nil: nobody waits.
func turnsOf(of *load.Turns, s *session) upstream.Turns {
	if of == nil {
		return nil
	}
	return turns{of, s}
}

// Take implements upstream.Turns.
func (t turns) Take(ctx context.Context) (upstream.Turn, error) {
	from := load.From{Connection: t.session}
	if who := t.session.of.get(); who != (crowd.Who{}) && !t.session.key.ofAll() {
		from.Party = who
	}
	turn, err := t.of.Take(ctx, from)
	if err != nil {
		return nil, err
	}
	return turn, nil
}
