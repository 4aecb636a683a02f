package upstream

import (
	"context"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// someTurns gives as many turns as may is sent, and counts those that have not ended.
type someTurns struct {
	may  chan struct{}
	open chan int // holds the number
}

func (s *someTurns) Take(ctx context.Context) (Turn, error) {
	select {
	case <-s.may:
		s.open <- <-s.open + 1
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *someTurns) Done() { s.open <- <-s.open - 1 }

// A response waits for a turn of its session, is carried out in it, and the turn ends. A session ends while one
// waits.
func TestResponsesTakeTurns_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		turns := &someTurns{may: make(chan struct{}), open: make(chan int, 1)}
		turns.open <- 0
		store := newStore(sub(clusters, "*"))
		session, err := newUpstream(t, n.config("a")).NewSession(SessionConfig{Node: &corev3.Node{Id: "relay"}, Scope: "s", Store: store, Turns: turns})
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, session)
		ss := srv.accept()
		ss.next()
		applied := func(want int) {
			t.Helper()
			synctest.Wait()
			store.get(func(m *memStore) {
				if len(m.applied) != want {
					t.Errorf("LIM-2: %d responses were carried out, want %d", len(m.applied), want)
				}
			})
			open := <-turns.open
			turns.open <- open
			if open != 0 {
				t.Errorf("LIM-2: %d turns have not ended", open)
			}
		}
		ss.respond(clusters, "1", "x")
		applied(0)
		turns.may <- struct{}{}
		ss.answer()
		applied(1)
		ss.respond(clusters, "2", "y")
		synctest.Wait()
		_ = s.stop() // its error is the context's
		applied(1)
	})
}
