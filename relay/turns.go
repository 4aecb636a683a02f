package relay

import (
	"context"
	"sync/atomic"

	"github.com/xdsrelay/xdsrelay/internal/crowd"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// beneficiary is the client for which a session works: the one that began to use it. It may be read by any
// goroutine.
type beneficiary struct {
	who     atomic.Pointer[crowd.Who]
	several atomic.Bool // clients of another address or identity use the session, too
}

// set names the client that begins to use the session.
func (b *beneficiary) set(who crowd.Who) {
	b.several.Store(false)
	b.who.Store(&who)
}

// join notes a further client; zero: it is a client that uses the session already.
func (b *beneficiary) join(who crowd.Who) {
	if who != (crowd.Who{}) && !b.several.Load() && b.get() != who {
		b.several.Store(true)
	}
}

// party is whose turn the session takes; false: its own. Who begins a scope that others use, too, does not
// decide whose turn it takes: it might have ten thousand others.
func (b *beneficiary) party() (crowd.Who, bool) {
	who := b.get()
	return who, who != crowd.Who{} && !b.several.Load()
}

// get gives the client; zero: nobody knows.
func (b *beneficiary) get() crowd.Who {
	if who := b.who.Load(); who != nil {
		return *who
	}
	return crowd.Who{}
}

// turns are those of a session. Addresses and identities take turns, and then the sessions of each (LIM-2):
// who has ten thousand scopes keeps the scopes of others waiting for one response at a time. A session that
// clients of several addresses or identities use is a party by itself.
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
	if who, one := t.session.of.party(); one && !t.session.key.ofAll() {
		from.Party = who
	}
	turn, err := t.of.Take(ctx, from)
	if err != nil {
		return nil, err
	}
	return turn, nil
}
