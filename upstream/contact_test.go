package upstream

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A stream that a server accepts is no answer. The request on it is owed one until a response
// comes (SUR-2).
func TestSUR2_Contact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		cfg := n.config("a")
		cfg.Outages = new(Outages)
		if got := cfg.Outages.Contact(); !got.Answered.IsZero() || !got.Unanswered.IsZero() {
			t.Errorf("before anything: %+v", got)
		}
		asked := time.Now()
		s := run(t, newUpstream(t, cfg), newStore(sub(clusters, "*")), nil)
		ss := srv.accept()
		ss.next()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := cfg.Outages.Contact(); !got.Answered.IsZero() || !got.Unanswered.Equal(asked) {
			t.Errorf("while the server is mute: %+v, asked at %v", got, asked)
		}
		ss.respond(clusters, "1", "a")
		ss.answer()
		answered := time.Now()
		time.Sleep(time.Minute)
		if got := cfg.Outages.Contact(); !got.Answered.Equal(answered) || !got.Unanswered.IsZero() {
			t.Errorf("after the answer at %v: %+v", answered, got)
		} else if len(got.Took) != 1 || got.Took[0] != (Took{answered, time.Minute}) {
			t.Errorf("the answer took %v", got.Took)
		}
		_ = s.stop()
		if got := cfg.Outages.Contact(); !got.Answered.Equal(answered) || !got.Unanswered.IsZero() {
			t.Errorf("after the session: %+v", got)
		}
	})
}

// A server that answered and hangs has a request open, though nobody knows whether it has what is asked for (SUR-2). The request
// is open until something follows it.
func TestSUR2_ContactOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		cfg := n.config("a")
		cfg.Outages = new(Outages)
		store := newStore(sub(clusters, "*"))
		s := run(t, newUpstream(t, cfg), store, nil)
		ss := srv.accept()
		ss.next()
		ss.respond(clusters, "1", "a")
		ss.answer()
		if got := cfg.Outages.Contact(); !got.Open.IsZero() {
			t.Errorf("after the answer: %+v", got)
		}
		time.Sleep(time.Minute / 4)
		asked := time.Now()
		store.want(0, []wire.Subscription{sub(clusters, "*"), sub(endpoints, "new")}, sub(endpoints, "new"))
		ss.next()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := cfg.Outages.Contact(); !got.Open.Equal(asked) || !got.Unanswered.IsZero() || got.Answered.After(asked) {
			t.Errorf("while the server hangs: %+v, asked at %v", got, asked)
		}
		ss.respond(endpoints, "1", "new")
		ss.answer()
		if got := cfg.Outages.Contact(); !got.Open.IsZero() {
			t.Errorf("after the second answer: %+v", got)
		}
		_ = s.stop()
	})
}

func TestSUR8_Took(t *testing.T) {
	var o Outages
	for i := range mostTook + 3 {
		o.contacts.paid(time.Time{}, time.Duration(i))
	}
	took := o.Contact().Took
	if len(took) != mostTook || took[0].For != mostTook || took[3].For != 3 {
		t.Errorf("%d answers are kept, the first %v, the fourth %v", len(took), took[0], took[3])
	}
}

// A server that falls mute owes an answer from the first query on, until it answers: neither its next streams nor further
// queries make that younger, so that an alert at a minute fires. Nothing is owed to a session that has ended (SUR-2, OPS-6).
func TestMuteServerOwesOneAnswer_SUR2_OPS6(t *testing.T) {
	for _, api := range everyAPI() {
		for _, comesBack := range []bool{true, false} {
			t.Run(fmt.Sprint(api, " it comes back: ", comesBack), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFaulty(t)
					a := f.plane("a:1", api)
					a.set("1", "x")
					out := new(Outages)
					store := wanting(api, "x")
					s := run(t, f.upstream(api, out, []string{"a:1"}), store, nil)
					until(func() bool { return store.has("x") })
					a.mute.Store(true)
					if took := until(func() bool { return !out.Contact().Unanswered.IsZero() }); took > 2*quietTime {
						t.Errorf("an answer is owed after %v", took)
					}
					for range 20 {
						before := out.Contact().Unanswered
						time.Sleep(30 * time.Second)
						synctest.Wait()
						if now := out.Contact().Unanswered; now.IsZero() || now.After(before) {
							t.Fatalf("owed since %v, and 30 s later since %v", before, now)
						}
					}
					if owed := time.Since(out.Contact().Unanswered); owed < 9*time.Minute {
						t.Errorf("owed for %v", owed)
					}
					if comesBack {
						a.mute.Store(false)
						until(func() bool { return out.Contact().Unanswered.IsZero() })
					}
					_ = s.stop()
					if got := out.Contact(); !got.Unanswered.IsZero() || !got.Open.IsZero() {
						t.Errorf("after the session: %+v", got)
					}
				})
			})
		}
	}
}
