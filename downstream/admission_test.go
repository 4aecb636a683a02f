package downstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/quota"
	"google.golang.org/grpc/codes"
)

// gatekeeper is an Admission that lets everybody in, after so long.
type gatekeeper struct {
	after time.Duration
	done  func() // called by each Turn
}

func (g *gatekeeper) Join(ctx context.Context, _ quota.Client) (Turn, error) {
	select {
	case <-time.After(g.after):
		return g, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (*gatekeeper) Room() error { return nil }

func (g *gatekeeper) Poll(ctx context.Context, who quota.Client) (Turn, error) {
	return g.Join(ctx, who)
}

func (g *gatekeeper) Done() {
	if g.done != nil {
		g.done()
	}
}

var errOwnerless = errors.New("the turn ended while any sender might own the stream")

// The owner of a stream ends its turn: a sender may end it too, and is not to do so at the same time.
func TestTurnHasOwner_LIM1(t *testing.T) {
	bubble(t, func(h *harness) {
		ended := make(chan error, 8)
		g := &gatekeeper{}
		g.done = func() {
			for _, m := range h.server.present() {
				if st := m.(*stream); st.owner.try() {
					st.owner.give()
					ended <- errOwnerless
					return
				}
			}
			ended <- nil
		}
		h.server.Admit(g)
		h.opaque.set(clusterType, "1", "a")
		c := h.client()
		c.subscribe(clusterType, "a")
		c.wants("Cluster +a=1")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A client that goes away while it waits for its turn is no failure of the relay.
func TestPollLeavesWhileItWaits_LIM1(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.server.Admit(&gatekeeper{after: time.Second})
		p := h.poller(clusterPath, "a").poll()
		p.cancel()
		<-p.done
		if got := h.seen.closed; got[codes.Canceled] != 1 || len(got) != 1 {
			t.Errorf("the poll ended with %v, want Canceled", got)
		}
	})
}
