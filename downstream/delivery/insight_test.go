package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// insight renders what operators are told of a client.
func (p *peer) insight(acks Acks) string {
	s := p.s
	var all []string
	for _, x := range s.Inspect(func(string) Acks { return acks }, everything) {
		one := []string{x.TypeURL[strings.LastIndexByte(x.TypeURL, '.')+1:], string(x.Waits)}
		if x.Open.Count > 0 {
			one = append(one, fmt.Sprint("open:", x.Open.Names))
		}
		if x.Missing.Count > 0 {
			one = append(one, fmt.Sprint("missing:", x.Missing.Names))
		}
		for _, d := range x.Details {
			one = append(one, fmt.Sprintf("%s/%s=%s@%s", d.By, d.Name, d.Status, d.Held))
		}
		all = append(all, strings.Join(one, " "))
	}
	return strings.Join(all, "; ")
}

func everything(string, string) bool { return true }

func TestInspect_CSDS1(t *testing.T) {
	want := func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	t.Run("CSDS-1 a name is asked for, sent, acknowledged, changed, and gone", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "a", "b")
		want(t, c.insight(Acknowledged), "ClusterLoadAssignment name open:[a b] name/a=REQUESTED@ name/b=REQUESTED@")
		b.says(eds, "+a@1", "-b")
		want(t, c.insight(Acknowledged), "ClusterLoadAssignment turn missing:[b] name/a=STALE@ name/b=DOES_NOT_EXIST@")
		c.collect()
		want(t, c.insight(Awaited), "ClusterLoadAssignment ack missing:[b] name/a=STALE@ name/b=DOES_NOT_EXIST@")
		want(t, c.insight(Acknowledged), "ClusterLoadAssignment  missing:[b] name/a=ACKED@1 name/b=DOES_NOT_EXIST@")
		b.says(eds, "+a@2")
		want(t, c.insight(Acknowledged), "ClusterLoadAssignment turn missing:[b] name/a=STALE@ name/b=DOES_NOT_EXIST@")
	})
	t.Run("CSDS-1 members of *", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "*")
		want(t, c.insight(Acknowledged), "Cluster name open:[*]")
		b.says(cds, "+a@1", "+b@1")
		c.collect()
		want(t, c.insight(Acknowledged), "Cluster  */a=ACKED@1 */b=ACKED@1")
		b.says(cds, "+b@2")
		want(t, c.insight(Acknowledged), "Cluster turn */a=ACKED@1 */b=STALE@")
	})
}

func TestInspect_ACK3(t *testing.T) {
	b, c := newBed(t, cache.Limits{}).subscribed(cds, "*")
	b.says(cds, "+a@1", "+b@1")
	s := c.s
	batches, _, err := s.Collect(paceOf(func(string) bool { return false }, 1<<20, 8))
	if err != nil || len(batches) != 1 {
		t.Fatalf("%d batches, %v", len(batches), err)
	}
	rejects := func() []Rejected { return s.Inspect(acknowledged, nil)[0].Rejected }
	s.Rejected(c.c, batches[0])
	if got := fmt.Sprint(rejects()); got != "[{a 1 false} {b 1 false}]" {
		t.Errorf("of several: %s", got)
	}
	batches, _, _ = s.Collect(paceOf(func(string) bool { return false }, 1<<20, 8))
	s.Accepted(c.c, batches[0])
	s.Rejected(c.c, batches[1])
	if got := fmt.Sprint(rejects()); got != "[{b 1 true}]" {
		t.Errorf("alone: %s", got)
	}
	b.says(cds, "+b@2")
	if got := rejects(); len(got) > 0 {
		t.Errorf("repaired: %v", got)
	}
}

// The outage of another store is not what a client waits for that has all of that one (CSDS-1).
func TestWaitsOfOtherStores_CSDS1(t *testing.T) {
	b, c := newBed(t, cache.Limits{}).subscribed(eds, "slow")
	away := b.cache.Open(cache.Source{Quiet: quiet})
	place := c.s.Join(away)
	place.Update(&Change{TypeURL: eds, Subscribe: names([]string{"here"})})
	away.Session().Restart(streamOf(0), 0)
	if err := away.Session().Apply(streamOf(0), response(eds, "+here@1"), time.Now()); err != nil {
		t.Fatal(err)
	}
	c.collect()
	away.Session().SetOutage("it is away")
	if got, want := string(c.s.Inspect(acknowledged, nil)[0].Waits), string(WaitsForName); got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
	b.store.Session().SetOutage("it is away")
	if got, want := string(c.s.Inspect(acknowledged, nil)[0].Waits), string(WaitsForUpstream); got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
}
