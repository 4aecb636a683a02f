package cache

import (
	"fmt"
	"testing"
	"time"
)

// The clock of a name goes soon after the name, however many clients come and go before its time: it keeps the name
// in memory.
func TestClocksOfDroppedNames_LIM3(t *testing.T) {
	k := &kept{t, New(Limits{}, nil).Open(Source{Quiet: time.Second, Absent: time.Hour})}
	l := k.listener(NeedsStream)
	l.watch("waits")
	k.store.Session().Restart(stream(WholeType), 0)
	clocks := &k.store.tables[tableKey{cds, ByName}].demands.clocks
	most := 0
	for i := range 3 * minClocks {
		name := fmt.Sprint("made up ", i)
		l.watch(name)
		k.store.Session().TakeDemand(stream(WholeType))
		if i%2 == 0 { // answered while a client waits, or not at all
			k.says(WholeType, "-"+name)
		}
		l.unwatch(name)
		k.store.Session().Shed(stream(WholeType), cds, 1)
		k.store.Session().TakeDemand(stream(WholeType))
		most = max(most, len(clocks.queue))
	}
	k.check()
	if most > 2*minClocks || k.store.Session().Wanted() != 1 {
		t.Errorf("up to %d clocks ran for %d names", most, k.store.Session().Wanted())
	}
	if at := k.store.Session().Settle(time.Now()); at.IsZero() {
		t.Error("the clock of a name that a client waits for was lost")
	}
}

// How many clocks a stream had says nothing about how many void ones the next may keep.
func TestClocksOfStreams_LIM3(t *testing.T) {
	k := &kept{t, New(Limits{}, nil).Open(Source{Quiet: time.Second, Absent: time.Hour})}
	l := k.listener(NeedsStream)
	id := stream(WholeType)
	k.store.Session().Restart(id, 0)
	for i := range 8 * minClocks {
		l.watch(fmt.Sprint("name ", i))
	}
	k.store.Session().TakeDemand(id)
	clocks := &k.store.tables[tableKey{cds, ByName}].demands.clocks
	if clocks.sweepAt < 8*minClocks {
		t.Fatalf("void clocks are taken out from %d on", clocks.sweepAt)
	}
	k.store.Session().Lost(id)
	if len(clocks.queue) > 0 || clocks.sweepAt > minClocks {
		t.Errorf("on the next stream void clocks are taken out from %d on", clocks.sweepAt)
	}
}
