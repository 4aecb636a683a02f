package delivery

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What aliases stand for is held like content of their own.
func TestHeldAliases_GATE4_SUR3(t *testing.T) {
	for name, f := range map[string]func(b *bed, c *peer){
		"GATE-4 an alias that stands for nothing, as clients know": func(b *bed, c *peer) {
			c.sub(rds, "alias")
			b.saysRoute("-alias")
			b.expect(c.collect(), "RDS -alias")
			b.freezes(0)
			b.saysRoute("+r@1|xdstp://%,alias")
			b.expect(c.collect())
			b.releases()
			b.expect(c.collect(), "RDS +r@1")
		},
		"GATE-4 the first answer of an alias is no change, the second one is": func(b *bed, c *peer) {
			c.sub(rds, "alias", "other")
			b.freezes(0)
			b.saysRoute("+r@1|alias")
			b.expect(c.collect(), "RDS +r@1")
			b.saysRoute("+r@1|alias,other")
			b.expect(c.collect())
			b.saysRoute("+r@2|alias")
			b.expect(c.collect())
			b.releases()
			b.expect(c.collect(), "RDS +r@2")
		},
		"SUR-3 resources that only their aliases serve are counted": func(b *bed, c *peer) {
			c.sub(rds, many("", "alias", 0, 20, "")...)
			var said []string
			for i, alias := range many("", "alias", 0, 20, "") {
				said = append(said, many("+", "r", i, i+1, "@1|"+alias)...)
			}
			b.saysRoute(said...)
			b.elapses(quiet)
			b.expect(c.collect(), "RDS "+strings.Join(many("+", "r", 0, 20, "@1"), " "))
			b.saysRoute(many("-", "r", 0, 20, "")...)
			b.expect(c.collect())
			b.holdsBack(20)
			b.elapses(holdFor)
			if got := c.collect(); len(got) != 1 || strings.Count(got[0], "-r") != 20 {
				b.Fatalf("got %q", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(newFilled(t)) })
		})
	}
}

// The loss of a whole glob is held, and only that.
func TestGuardGlobs_SUR3(t *testing.T) {
	const g, h = "xdstp://x/envoy.config.cluster.v3.Cluster/g/", "xdstp://x/envoy.config.cluster.v3.Cluster/h/"
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, false)
		c := b.join()
		c.sub(cds, g+"*", h+"*", "single")
		b.connect(1)
		b.says(cds, slices.Concat(many("+", g, 0, 20, "@1"), many("+", h, 0, 60, "@1"), []string{"+single@1"})...)
		b.elapses(quiet)
		c.collect()
		b.says(cds, many("-", g, 0, 20, "")...)
		b.expect(c.collect())
		b.holdsBack(20)
		b.says(cds, "-"+h+"00000", "-single")
		b.expect(c.collect(), "CDS -single -"+h+"00000")
		b.says(cds, "+"+g+"00000@2")
		b.expect(c.collect(), "CDS +"+g+"00000@2")
		b.holdsBack(19)
		b.elapses(holdFor)
		b.expect(c.collect(), "CDS "+strings.Join(many("-", g, 1, 20, ""), " "))
	})
}

// A ttl ends what clients have, and not the content that is held (GATE-4, TTL-2).
func TestFreezeTTL_GATE4_TTL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := newFilled(t)
		b.says(cds, "+m00000@2~60s")
		c.collect()
		b.freezes(0)
		b.says(cds, "+m00000@3~60s")
		b.elapses(time.Minute)
		b.expect(c.collect(), "CDS -m00000")
		b.releases()
		b.expect(c.collect(), "CDS +m00000@3")
	})
}
