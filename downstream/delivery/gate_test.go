package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// When removals of clusters and endpoints pass the gate, if they wait for a second (ADS-4).
func TestGate_ADS4(t *testing.T) {
	for name, run := range map[string]func(p *peer, after func(d time.Duration, want ...string)){
		"ADS-4 the removal of a name waits": func(p *peer, after func(time.Duration, ...string)) {
			p.sub(eds, "x")
			p.connect(0)
			p.says(eds, "+x@1")
			after(0, "EDS +x@1")
			p.says(eds, "-x")
			after(0)
			after(time.Second - 1)
			after(1, "EDS -x")
		},
		"ADS-4 RES-11 what a client holds and does not exist waits once, however often the client collects": func(p *peer, after func(time.Duration, ...string)) {
			p.resume(cds, []string{"gone@1"}, "*")
			p.connect(0)
			p.says(cds, "+a@1")
			p.settle()
			after(0, "CDS +a@1")
			after(600 * time.Millisecond)
			after(400*time.Millisecond - 1)
			after(1, "CDS -gone")
		},
		"ADS-4 RES-11 what a client holds does not go with a removal that came before": func(p *peer, after func(time.Duration, ...string)) {
			p.resume(cds, []string{"gone@1"}, "*")
			p.connect(0)
			p.says(cds, "+a@1", "+b@1")
			after(0, "CDS +a@1 +b@1")
			p.says(cds, "-a")
			after(500 * time.Millisecond)
			p.settle()
			after(0)
			after(500*time.Millisecond, "CDS -a")
			after(500*time.Millisecond - 1)
			after(1, "CDS -gone")
		},
		"ADS-4 a change that the client lacks does not shut the gate before a removal": func(p *peer, after func(time.Duration, ...string)) {
			p.sub(cds, "a", "x")
			p.sub(rds, "r")
			p.connect(0)
			p.says(cds, "+a@1", "+x@1")
			p.says(rds, "+r@1")
			after(0, "CDS +a@1 +x@1", "RDS +r@1")
			p.says(rds, "+r@2")
			after(0, "RDS +r@2")
			p.busy[cds], p.busy[rds] = true, true
			p.says(cds, "+x@2")
			after(900 * time.Millisecond)
			p.says(cds, "-a")
			after(0)
			after(100 * time.Millisecond) // x has waited for its time
			after(900 * time.Millisecond) // and so has a: it waits for the route's acknowledgement
			after(acceptWait - 1)
			p.busy[cds] = false
			after(1, "CDS +x@2 -a")
		},
		"ADS-5 the removal of a route waits, then for the listeners' acknowledgement, and clusters go after it": func(p *peer, after func(time.Duration, ...string)) {
			p.sub(lds, "l")
			p.sub(rds, "r", "s")
			p.sub(cds, "a")
			p.connect(0)
			p.says(cds, "+a@1")
			p.says(lds, "+l@1")
			p.says(rds, "+r@1", "+s@1")
			after(0, "CDS +a@1", "LDS +l@1", "RDS +r@1 +s@1")
			p.says(cds, "-a")
			p.says(rds, "-r")
			after(0)
			p.says(lds, "+l@2")
			after(0, "LDS +l@2")
			p.busy[lds] = true
			after(time.Second)
			p.says(rds, "+s@2")
			after(0, "RDS +s@2")
			p.busy[lds] = false
			after(0, "RDS -r")
			after(0, "CDS -a")
		},
		"ADS-5 the removal of a secret waits for clusters, endpoints wait for nothing of it": func(p *peer, after func(time.Duration, ...string)) {
			p.sub(cds, "a")
			p.sub(eds, "a")
			p.sub(xds.SecretType, "s")
			p.connect(0)
			p.says(cds, "+a@1")
			p.says(eds, "+a@1")
			p.says(xds.SecretType, "+s@1")
			after(0, "CDS +a@1", "EDS +a@1", " +s@1")
			p.says(xds.SecretType, "-s")
			p.says(cds, "+a@2")
			after(0, "CDS +a@2")
			p.busy[eds] = true
			after(time.Second - 1)
			after(1, " -s")
		},
		"ADS-5 the first answer that a route does not exist waits for nothing": func(p *peer, after func(time.Duration, ...string)) {
			p.sub(rds, "r")
			p.connect(0)
			p.says(rds, "-r")
			after(0, "RDS -r")
		},
		"ADS-5 a route whose ttl ends, and one that becomes one to which the client has no access, do not wait": func(p *peer, after func(time.Duration, ...string)) {
			p.sub(rds, "r", "s", "t")
			p.connect(0)
			p.says(rds, "+r@1~2s", "+s@1", "+t@1")
			after(0, "RDS +r@1 +s@1 +t@1")
			after(2*time.Second - 1)
			p.says(rds, "-t")
			<-time.After(1)
			p.store.Session().Settle(time.Now())
			after(0, "RDS -r")
			p.s.JudgedBy(denying{names: map[string]bool{"s": true}, off: everyUse}, true)
			p.says(rds, "+s@2")
			after(0, "RDS -s")
			after(time.Second - 2)
			after(1, "RDS -t")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				p := b.join()
				run(p, func(d time.Duration, want ...string) {
					t.Helper()
					<-time.After(d)
					pace := paceOf(func(typeURL string) bool { return p.busy[typeURL] }, p.size, 8)
					pace.RemovalWait = time.Second
					batches, _, err := p.s.Collect(pace)
					if err != nil {
						t.Fatal(err)
					}
					var got []string
					for _, batch := range batches {
						got = append(got, p.render(batch))
					}
					p.check()
					if !slices.Equal(got, want) {
						t.Fatalf("the client is sent %q, want %q", got, want)
					}
				})
			})
		})
	}
}

// A state-of-the-world client that is so far behind that the cache has discarded some of its removals waits no longer for
// these: when they were due is not known any more. Those that are still known wait.
func TestGateOfClientBehind_ADS4_RES5(t *testing.T) {
	b := newBed(t, cache.Limits{})
	p := b.joinAs(bareForm)
	p.sub(cds, "*")
	b.connect(0)
	b.says(cds, many("+", "m", 0, 1030, "@1")...)
	b.settle()
	p.lists()
	listed := func() []string {
		return p.listsWithin(func(pace *Pace) { pace.RemovalWait = time.Hour })
	}
	b.says(cds, many("-", "m", 0, 1024, "")...)
	b.expect(listed())
	b.says(cds, many("-", "m", 1024, 1025, "")...)
	var left strings.Builder
	for at := 1024/8 + 1; at < 1030; at++ {
		fmt.Fprintf(&left, " m%05d1", at)
	}
	b.expect(listed(), "CDS"+left.String())
	b.expect(listed())
}
