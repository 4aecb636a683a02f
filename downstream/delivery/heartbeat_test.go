package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// What a client said that it holds with a TTL is believed for a while: a message to it may take so long (TTL-3).
func TestOutlived_TTL3_RES11(t *testing.T) {
	for _, spelling := range []string{"*", "a"} {
		for wait, want := range map[time.Duration]string{
			0: "EDS =a@1~1m0s", underWay - 1: "EDS =a@1~59.000000001s", underWay: "EDS +a@1~59s",
		} {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				b.join().sub(eds, spelling)
				b.connect(0)
				b.says(eds, "+a@1~1m")
				c := b.joinAs(timed)
				c.presents(eds, "a@1", spelling)
				<-time.After(wait)
				b.expect(c.collect(), want)
			})
		}
	}
}

// A client is told no heartbeat of a member that it may not have (ACC-3), nor of one that it is sent by a name.
func TestHeartbeatsOfWhatIsSent_TTL3_ACC3(t *testing.T) {
	for name, hidden := range map[string]bool{"a": true, "other": false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(timed)
			c.s.JudgedBy(denying{names: map[string]bool{name: true}, off: everyUse}, false)
			c.sub(eds, "*")
			b.connect(0)
			b.says(eds, "+a@1~1m", "+b@1~1m")
			c.collect()
			<-time.After(time.Second)
			b.says(eds, "=a@1~1m")
			if hidden {
				b.expect(c.collect())
				if c.rang(); c.s.Held() {
					t.Error("something is left of it")
				}
			} else {
				b.expect(c.collect(), "EDS =a@1~1m0s")
			}
			b.says(eds, "=b@1~1m")
			b.expect(c.collect(), "EDS =b@1~1m0s")
		})
	}
}

// In the state of the world the shortest TTL of what is renewed counts, and of what lists tell (TTL-1).
func TestShortestTTL_TTL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(Form{State: true, TTL: true})
		c.sub(eds, "*")
		b.connect(0)
		shortest := func(listed bool, want time.Duration) {
			t.Helper()
			var got time.Duration
			b.store.View(func() { got = c.c.find(eds).subs.shortestTTL(listed) })
			if got != want {
				t.Errorf("with lists %t: %v, want %v", listed, got, want)
			}
		}
		shortest(true, 0)
		b.says(eds, "+a@1~10m", "+b@1~20m", "+c@1~15m", "+d@1")
		shortest(false, 0)
		shortest(true, 10*time.Minute)
		b.says(eds, "=b@1~20m")
		shortest(false, 20*time.Minute)
		b.says(eds, "=c@1~15m")
		shortest(false, 15*time.Minute)
		shortest(true, 10*time.Minute)
	})
}

// Where a TTL is removed a client of the state of the world is sent that content, and no other (TTL-4).
func TestRemovedTTLs_TTL4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(timedState)
		c.sub(eds, "*")
		b.connect(0)
		b.says(eds, "+a@1~1h", "+b@1~1h", "+c@1~1h")
		b.expect(c.worlds(), "EDS +a@1~1h0m0s +b@1~1h0m0s +c@1~1h0m0s")
		b.says(eds, "=c@1~1h")
		b.expect(c.worlds(), "EDS =c@1~1h0m0s")
		b.says(eds, "=b@1~1h") // which waits
		b.says(eds, "+a@1")
		b.expect(c.worlds(), "EDS +a@1")
		b.expect(c.worlds())
		<-time.After(time.Hour / renewalsPerTTL)
		b.expect(c.worlds(), "EDS =b@1~40m0s")
		<-time.After(time.Hour / renewalsPerTTL)
		b.says(eds, "+b@1") // while it may be renewed
		b.expect(c.worlds(), "EDS +b@1")
		b.expect(c.worlds())
	})
}
