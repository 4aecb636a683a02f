package envoy

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"google.golang.org/protobuf/types/known/durationpb"
)

func nackWaitScenarios() []scenario {
	return []scenario{{
		name: "a change each 100 ms, Envoys warm", proves: "ACK-7", goCP: true, only: relayed, alone: true,
		forms: []form{deltaADS, stateADS}, play: changesInTrain,
	}}
}

// TestNackWait measures what it costs that the relay's answers wait for Envoys that withhold theirs while they warm
// clusters: go-control-plane sends nothing more of a type before it has the answer. The default of nack_wait stands for
// at most nackCost at the 99th percentile, with the sizes that XDSRELAY_SOAK gives.
func TestNackWait_ACK7(t *testing.T) { playAll(t, nackWaitScenarios()) }

const (
	changeEvery = 100 * time.Millisecond
	nackCost    = 20 * time.Millisecond
	// warming is how many clusters change, in turn. Each waits for its endpoints when it does.
	warming = 10
)

// changesInTrain compares a relay as it is by default with one that never waits, both with Envoys of their own, over
// the same changes.
func changesInTrain(w *world) {
	envoys, changes := 2, 30
	if soaking() {
		envoys, changes = 20, 600
	}
	a := w.backend("a")
	for i := range warming {
		name := fmt.Sprint("warm-", i)
		w.goCP.set(w.cluster(name), endpoints(name, a))
	}
	never := startRelay(w.t, w.form.up, w.goCP.Addr(), false, func(c *config.Config) { c.Upstreams[0].NackWait = 0 })
	var waits, atOnce aged
	for i := range envoys {
		waits.add(w.envoy(fmt.Sprint("waits-", i)))
		atOnce.add(w.envoyAt(fmt.Sprint("at-once-", i), never.addr))
	}
	for _, e := range slices.Concat(waits.envoys, atOnce.envoys) {
		w.need(soon, e.Node()+" has all clusters", func() bool { return len(e.ActiveClusters()) == warming })
	}
	for i := range changes {
		next := time.Now().Add(changeEvery)
		name := fmt.Sprint("warm-", i%warming)
		c := w.cluster(name)
		c.ConnectTimeout = durationpb.New(time.Duration(i+1) * time.Millisecond)
		set := time.Now()
		w.goCP.set(c)
		wait.Until(time.Until(next)-changeEvery/10, func() bool { return false })
		var looking sync.WaitGroup
		looking.Go(func() { waits.look(set) })
		looking.Go(func() { atOnce.look(set) })
		looking.Wait()
		wait.Until(time.Until(next), func() bool { return false })
	}
	for _, a := range []*aged{&waits, &atOnce} {
		w.need(soon, "all Envoys have the last change", func() bool { a.look(time.Time{}); return a.complete() })
	}
	w.notef("nack_wait auto: %v; 0s: %v", waits.says(), atOnce.says())
	if cost := waits.part(99) - atOnce.part(99); soaking() && cost > nackCost {
		w.faultf("at the 99th percentile a change is %v later than with nack_wait 0s, want at most %v", cost, nackCost)
	}
	w.unscathed(slices.Concat(waits.envoys, atOnce.envoys)...)
}

// aged is how old changes of clusters were when Envoys had them.
type aged struct {
	envoys []*envoyproc.Envoy
	lack   [][]time.Time // changes that each Envoy was not seen to have
	ages   []time.Duration
}

func (a *aged) add(e *envoyproc.Envoy) { a.envoys, a.lack = append(a.envoys, e), append(a.lack, nil) }

// look takes what the Envoys say of their last update of clusters, after a change; zero: after none. A change that
// one had before a later one counts as old as that.
func (a *aged) look(set time.Time) {
	for i, e := range a.envoys {
		if !set.IsZero() {
			a.lack[i] = append(a.lack[i], set)
		}
		at := time.UnixMilli(e.Stat("cluster_manager.cds.update_time"))
		a.lack[i] = slices.DeleteFunc(a.lack[i], func(set time.Time) bool {
			has := !at.Before(set.Truncate(time.Millisecond))
			if has {
				a.ages = append(a.ages, max(0, at.Sub(set)))
			}
			return has
		})
	}
}

func (a *aged) complete() bool {
	return !slices.ContainsFunc(a.lack, func(sets []time.Time) bool { return len(sets) > 0 })
}

// part is a percentile of the ages.
func (a *aged) part(percent int) time.Duration {
	slices.Sort(a.ages)
	return a.ages[(len(a.ages)-1)*percent/100]
}

func (a *aged) says() string {
	return fmt.Sprintf("p50 %v, p99 %v, at most %v", a.part(50), a.part(99), a.part(100))
}
