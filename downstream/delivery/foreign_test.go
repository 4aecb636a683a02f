package delivery

import (
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

const (
	// The authority of nameG1, nameG2 and nameQ is "x".
	ofY = "xdstp://y/envoy.config.cluster.v3.Cluster/g/1"
	ofZ = "xdstp:///envoy.config.cluster.v3.Cluster/g/1"
)

// speaker gives what says that a server speaks for some authorities.
func speaker(authorities ...string) func(string) bool {
	return func(authority string) bool { return slices.Contains(authorities, authority) }
}

// A server speaks for its own authorities: what it sends for "*" under xdstp names of others is
// left out and counted, and is nothing to clients.
func TestForeign_LOC3_NAME2(t *testing.T) {
	open := func(t *testing.T, source cache.Source) (*bed, *peer) {
		t.Helper()
		source.Quiet, source.Upstream, source.Speaks = quiet, "plane", speaker("x", "")
		b := newBedOf(t, cache.Limits{}, source)
		c := b.join()
		c.sub(cds, "*")
		b.expect(b.connect(0), "CDS +*")
		return b, c
	}
	t.Run("LOC-3 incremental", func(t *testing.T) {
		b, c := open(t, cache.Source{})
		b.says(cds, "+a@1", "+"+nameG1+"@1", "+"+ofY+"@1", "+"+ofZ+"@1")
		b.expect(c.collect(), "CDS +a@1 +"+nameG1+"@1 +"+ofZ+"@1")
		b.says(cds, "-"+ofY)
		b.expect(c.collect())
		b.says(cds, "+"+ofY+"@2")
		b.expect(c.collect())
		b.expect(b.seen.foreign, "plane "+ofY+" 1", "plane "+ofY+" 1")
		if b.seen.unsolicited != 0 {
			t.Errorf("%d resources counted as unsolicited", b.seen.unsolicited)
		}
	})
	t.Run("LOC-3 state of the world", func(t *testing.T) {
		b, c := open(t, cache.Source{State: true, FullState: map[string]bool{cds: true}})
		b.state(cds, "v1", "+a@1", "+"+ofY+"@1")
		b.expect(c.told(), "CDS +a")
		b.state(cds, "v2", "+a@1")
		b.state(cds, "v3", "+"+ofY+"@1")
		b.expect(c.told(), "CDS -a")
		b.expect(b.seen.foreign, "plane "+ofY+" 1", "plane "+ofY+" 1")
	})
	t.Run("LOC-3 a response of foreign resources alone says that there is nothing", func(t *testing.T) {
		b, c := open(t, cache.Source{})
		b.says(cds, "+"+ofY+"@1")
		b.expect(c.collect(), "CDS")
	})
	t.Run("LOC-3 ERR-1 errors of foreign names are nobody's", func(t *testing.T) {
		b, c := open(t, cache.Source{})
		b.says(cds, "+a@1")
		c.collect()
		b.fails(cds, ofY, unavailable)
		b.fails(cds, nameG1, unavailable)
		b.expect(c.collect(), "CDS !"+nameG1)
	})
	t.Run("LOC-3 what is asked for by name or by glob is the server's", func(t *testing.T) {
		b, c := open(t, cache.Source{})
		c.sub(cds, ofY)
		b.connect(1)
		b.saysOn(1, cds, "+"+ofY+"@1")
		b.expect(c.collect(), "CDS +"+ofY+"@1")
		b.expect(b.seen.foreign)
	})
	t.Run("LOC-3 SUB-14 a stream that the wildcard shares with names", func(t *testing.T) {
		b, c := open(t, cache.Source{Shared: map[string]bool{cds: true}})
		c.sub(cds, "named")
		b.demand(0)
		b.says(cds, "+a@1", "+named@1", "+"+ofY+"@1")
		b.expectAll(c.collect(), "CDS +named@1", "CDS +a@1")
		b.expect(b.seen.foreign, "plane "+ofY+" 1")
	})
}

// A reload may change for whom the server speaks: members that are foreign now go, and
// where something was left out the server is asked for everything anew.
func TestForeign_LOC3_Reload(t *testing.T) {
	t.Run("LOC-3 an authority is taken away, and comes back", func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet})
		c := b.join()
		c.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "+"+nameG1+"@1", "+"+ofY+"@1")
		b.settle()
		c.collect()
		b.fails(cds, ofY, unavailable)
		b.store.Session().SetSpeaks(speaker("x"))
		b.check()
		if !c.rang() {
			t.Error("nobody was woken")
		}
		b.expect(c.collect(), "CDS -"+ofY)
		b.expect(b.demand(0))
		b.store.Session().SetSpeaks(nil)
		b.check()
		b.expect(b.demand(0), "begin anew")
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "CDS +* =a@1 ="+nameG1+"@1")
		b.says(cds, "+"+ofY+"@1")
		b.expect(c.collect(), "CDS +"+ofY+"@1")
		b.store.Session().SetSpeaks(speaker("x", "y"))
		b.expect(b.demand(0)) // nothing was left out
		b.expect(c.collect())
	})
	t.Run("LOC-3 what was left out is asked for", func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Speaks: speaker("x")})
		c := b.join()
		c.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "+"+ofY+"@1")
		b.expect(c.collect(), "CDS +a@1")
		b.store.Session().SetSpeaks(speaker("x", "y"))
		b.expect(b.demand(0), "begin anew")
	})
	t.Run("LOC-3 ACK-4 the server's version stands for less now", func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, cache.Source{State: true, FullState: map[string]bool{cds: true}})
		c := b.joinAs(Form{State: true})
		c.sub(cds, "*")
		b.connect(0)
		b.state(cds, "v1", "+a@1", "+"+ofY+"@1")
		c.lists()
		b.store.Session().SetSpeaks(speaker("x"))
		b.check()
		b.expect(c.lists(), "CDS a1")
		late := b.joinAs(Form{State: true})
		late.show(cds, "v1", "*")
		b.expect(late.lists(), "CDS a1")
	})
}
