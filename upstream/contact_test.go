package upstream

import (
	"testing"
	"testing/synctest"
	"time"
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
		}
		_ = s.stop()
		if got := cfg.Outages.Contact(); !got.Answered.Equal(answered) || !got.Unanswered.IsZero() {
			t.Errorf("after the session: %+v", got)
		}
	})
}
