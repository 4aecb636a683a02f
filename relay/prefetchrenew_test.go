package relay

import (
	"testing"
	"testing/synctest"

	"github.com/xdsrelay/xdsrelay/metrics"
)

// What is fetched ahead follows the configuration. What is led to before and after a
// reload is pinned all the time.
func TestPrefetcher_renew_LIST2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(t)
		plans, claimed := r.ahead.router, r.ahead.router.now.Load()
		unclaimed := *claimed
		unclaimed.authorities.Default = ""
		r.says(members(3))
		session := r.hub.all()[0]
		synctest.Wait()
		changes := session.store.Stats()[0]
		for _, step := range []struct {
			name   string
			plan   *plan
			ahead  bool
			pins   int
			faults float64
		}{
			{"nothing changes", claimed, true, 3, 0},
			{"nothing is fetched ahead", claimed, false, 0, 0},
			{"it is again", claimed, true, 3, 0},
			{"LOC-4 nobody has the authority", &unclaimed, true, 0, 3},
			{"LOC-4 and that is counted once", &unclaimed, true, 0, 3},
			{"LOC-3 somebody has it", claimed, true, 3, 3},
		} {
			plans.now.Store(step.plan)
			r.ahead.renew(step.ahead)
			<-r.ahead.bell
			r.ahead.beginAnew()
			r.ahead.take()
			synctest.Wait()
			if got := r.faults(metrics.FaultAuthority); r.pins() != step.pins || got != step.faults {
				t.Errorf("%s: %d pins, %v faults", step.name, r.pins(), got)
			}
			users, nodes := 0, 0
			if step.pins > 0 {
				users, nodes = 1, step.pins
			}
			if r.hub.users(session) != users || len(r.ahead.held) != users || len(r.ahead.graph.nodes) != nodes+1 {
				t.Errorf("%s: %d users, %d nodes", step.name, r.hub.users(session), len(r.ahead.graph.nodes))
			}
			if now := session.store.Stats()[0]; step.name == "nothing changes" && now != changes {
				t.Errorf("%s: the store has %+v, had %+v", step.name, now, changes)
			}
		}
		r.client.Leave()
		r.ahead.take()
		if r.pins() != 0 || len(r.ahead.graph.nodes)+len(r.ahead.held) != 0 {
			t.Errorf("%d pins, %d nodes at the end", r.pins(), len(r.ahead.graph.nodes))
		}
		if err := r.store.Check(); err != nil {
			t.Error(err)
		}
	})
}
