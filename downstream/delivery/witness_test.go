package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A relay that begins with restored names has its server answer for one of them, so that silence about the others means
// something. That name goes before the server has said anything of it: the server does not answer for it any more, and
// what it says of a new name confirms nothing. The relay asks once more for another one.
func TestSUR1WitnessGoes_RES12(t *testing.T) {
	for what, goes := range map[string]func(b *bed){
		"it is evicted":    func(b *bed) { b.letGo() },
		"its ttl runs out": func(b *bed) { b.elapses(2 * time.Minute) },
	} {
		t.Run(what, func(t *testing.T) {
			for what, says := range map[string]struct{ server, client []string }{
				"the server has what the client presented": {[]string{"+f@2"}, nil},
				"the server has what the disk had":         {[]string{"+f@1"}, []string{"EDS +f@1"}},
				"it is gone":                               {[]string{"-f"}, []string{"EDS -f"}},
			} {
				t.Run(what, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b, _ := newBed(t, cache.Limits{}).subscribed(eds, "e", "f")
						b.says(eds, "+e@1~1m", "+f@1")
						b = b.restart()
						client := b.join()
						client.resume(eds, []string{"f@2"}, "f", "g")
						connectAsking(b, "EDS +e +f +g =e@"+asked+" =f@1")
						b.says(eds, "+g@1")
						goes(b)
						b.expect(b.demand(0), "EDS -e")
						b.elapses(time.Hour)
						b.expect(client.collect(), "EDS +g@1")
						b.restored(1)
						b.expect(b.demand(0), "EDS +f")
						b.elapses(time.Hour)
						b.restored(1)
						b.says(eds, says.server...)
						b.restored(0)
						b.expect(client.collect(), says.client...)
					})
				})
			}
		})
	}
}

// The other names count as unchanged once the server has answered for the name that took the place of the first.
func TestSUR1WitnessGoes_SilenceAfterAnswer_RES12(t *testing.T) {
	b, _ := newBed(t, cache.Limits{}).subscribed(eds, "e", "f", "h")
	b.says(eds, "+e@1", "+f@1", "+h@1")
	b = b.restart()
	client := b.join()
	client.resume(eds, []string{"f@2", "h@2"}, "f", "h")
	connectAsking(b, "EDS +e +f +h =e@"+asked+" =f@1 =h@1")
	b.letGo()
	b.expect(b.demand(0), "EDS -e")
	b.settle()
	b.restored(2)
	witness, other := "f", "h"
	if asks := b.demand(0); len(asks) == 1 && asks[0] == "EDS +h" {
		witness, other = other, witness
	}
	b.says(eds, "+"+witness+"@1")
	b.expect(client.collect(), "EDS +"+witness+"@1")
	b.settle()
	b.restored(0)
	b.expect(client.collect(), "EDS +"+other+"@1")
}

// An operator goes back, and clients have older content of the name that the server is to answer for. That is not the
// server's word.
func TestSUR1WitnessRolledBack_GATE4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBed(t, cache.Limits{Generations: 3}).subscribed(rds, "e", "f")
		b.says(rds, "+e@1", "+f@1")
		b.elapses(time.Minute)
		b.says(rds, "+e@2")
		b = b.restart()
		client := b.join()
		client.resume(rds, []string{"e@2", "f@2"}, "e", "f", "g")
		connectAsking(b, "RDS +e +f +g =e@"+asked+" =f@1")
		b.rolls(0, 1)
		b.expect(client.collect(), "RDS +e@1")
		b.says(rds, "+g@1")
		b.elapses(time.Hour)
		b.expect(client.collect(), "RDS +g@1")
	})
}

// The ttl of the name that the server is to answer for runs out, and a client still wants it. So does the relay, and the
// server must still answer.
func TestSUR1WitnessExpires_TTL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBed(t, cache.Limits{}).subscribed(eds, "e", "f")
		b.says(eds, "+e@1~1m", "+f@1")
		b = b.restart()
		client := b.join()
		client.resume(eds, []string{"f@2"}, "e", "f", "g")
		connectAsking(b, "EDS +e +f +g =e@"+asked+" =f@1")
		b.expect(client.collect(), "EDS +e@1")
		b.elapses(2 * time.Minute)
		b.says(eds, "+g@1")
		b.elapses(time.Hour)
		b.expect(client.collect(), "EDS +g@1 -e")
		b.expect(b.demand(0))
		b.says(eds, "+e@2")
		b.elapses(time.Hour)
		b.expect(client.collect(), "EDS +e@2 +f@1")
	})
}

// What the relay has under an alias only it shows the server no version of. So no silence of the server is about that.
func TestSUR1AliasIsNoWitness_RES10(t *testing.T) {
	b, _ := newBed(t, cache.Limits{}).subscribed(eds, "alias")
	b.says(eds, "+real@1|alias")
	b = b.restart()
	client := b.join()
	client.resume(eds, []string{"alias@2", "real@2"}, "alias", "g")
	b.expect(b.connect(0), "EDS +alias +g")
	b.says(eds, "+g@1")
	b.settle()
	b.restored(1)
	b.expect(client.collect(), "EDS +g@1")
	b.says(eds, "+real@1|alias")
	b.restored(0)
	b.expect(client.collect(), "EDS +real@1")
}
