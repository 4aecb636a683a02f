package delivery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A relay that begins with restored names has its server answer for one of them, so that silence about the others means
// something. That name goes before the server has said anything of it: the server does not answer for it any more, and
// what it says of a new name confirms nothing. The stream begins anew with another one.
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
						b.expect(b.demand(0), "begin anew")
						b.store.Session().Lost(streamOf(0))
						b.expect(b.connect(0), "EDS +f +g =f@"+asked+" =g@1")
						b.says(eds, says.server...)
						b.restored(0)
						b.expect(client.collect(), says.client...)
					})
				})
			}
		})
	}
}

// restoredPair is a relay that was restarted, and has e and f of its disk.
func restoredPair(t *testing.T) *bed {
	t.Helper()
	b, _ := newBed(t, cache.Limits{}).subscribed(eds, "e", "f")
	b.says(eds, "+e@1", "+f@1")
	return b.restart()
}

// withoutWitness is such a relay, of which e was evicted before its server has said anything of it. Its client came back
// with another f than the disk had.
func withoutWitness(t *testing.T) (*bed, *peer) {
	t.Helper()
	b := restoredPair(t)
	client := b.join()
	client.resume(eds, []string{"f@2"}, "f")
	connectAsking(b, "EDS +e +f =e@"+asked+" =f@1")
	b.letGo()
	b.expect(b.demand(0), "EDS -e")
	return b, client
}

// The server is a relay that was restarted too, and whose control plane is away. The relay asks it for something in place
// of the name that went. The answer is what a disk had, so clients keep what they presented.
func TestSUR1WitnessGoes_BehindSilentRelay_RES12(t *testing.T) {
	first := restoredPair(t)
	relay := first.joinAs(Form{Relay: true})
	relay.resume(eds, []string{"e@" + asked, "f@1"}, "e", "f")
	second, client := withoutWitness(t)
	relay.unsub(eds, "e")
	second.settle()
	if subs, ok := second.store.Session().TakeDemand(streamOf(0)); ok {
		for _, sub := range subs {
			relay.sub(eds, sub.Subscribe...)
		}
	} else {
		relay.leave()
		relay = first.joinAs(Form{Relay: true})
		second.store.Session().Lost(streamOf(0))
		second.expect(second.connect(0), "EDS +f =f@"+asked)
		relay.resume(eds, []string{"f@" + asked}, "f")
	}
	for _, said := range relay.collect() {
		second.says(eds, strings.Fields(said)[1:]...)
	}
	second.settle()
	second.expect(client.collect())
	second.restored(1)
}

// The server has answered all the same, before it read that the relay does not ask for the name any more: it has read the
// versions of the others, and its silence about these counts.
func TestSUR1WitnessGoes_LateAnswer_RES12(t *testing.T) {
	b, client := withoutWitness(t)
	b.settle()
	b.says(eds, "+e@1")
	b.expect(b.demand(0))
	b.settle()
	b.restored(0)
	b.expect(client.collect(), "EDS +f@1")
}

// The server says what it has of the others before the stream has begun anew: there is nothing to begin anew for.
func TestSUR1WitnessGoes_OthersAnswered_RES12(t *testing.T) {
	b, _ := withoutWitness(t)
	b.settle()
	b.says(eds, "+f@3")
	b.restored(0)
	b.expect(b.demand(0))
}

// The name that went comes back before the stream has begun anew. It is subscribed to without a version: a server that is a
// relay, was restarted too and whose control plane is away sends what its disk had. That is no answer.
func TestSUR1WitnessComesBack_BehindSilentRelay_RES12(t *testing.T) {
	relay := restoredPair(t).joinAs(Form{Relay: true})
	relay.resume(eds, []string{"e@" + asked, "f@1"}, "e", "f")
	second, client := withoutWitness(t)
	relay.unsub(eds, "e")
	second.settle()
	client.sub(eds, "e")
	second.expect(second.demand(0), "begin anew") // and takes what the clients want
	relay.sub(eds, "e")
	second.expect(relay.collect(), "EDS +e@1")
	second.says(eds, "+e@1")
	second.settle()
	second.expect(client.collect(), "EDS +e@1")
	second.restored(1)
	second.expect(second.demand(0), "begin anew")
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
