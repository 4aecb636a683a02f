package upstream

import (
	"testing"
	"testing/synctest"
	"time"
)

// Connections fill up one after the other, and each is closed by its last user.
func TestConnectionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.serve("a")
		u := newUpstream(t, n.config("a"))
		var sessions []*running
		for range streamsPerConn + 1 {
			sessions = append(sessions, run(t, u, newStore(sub(clusters, "*")), nil))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		count := func() int {
			p := u.transport.(*pool)
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.conns[u.replicas.groups[0].endpoints[0].replicas[0]])
		}
		if got := count(); got != 2 || len(n.dialled("a")) != 2 {
			t.Errorf("%d connections, dialled %d times; want 2", got, len(n.dialled("a")))
		}
		for i, s := range sessions {
			s.cancel()
			synctest.Wait()
			if i == len(sessions)-2 && count() != 1 {
				t.Errorf("%d connections for one stream", count())
			}
		}
		if got := count(); got != 0 {
			t.Errorf("%d connections for nobody", got)
		}
	})
}
