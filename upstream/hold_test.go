package upstream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// With a nack wait the ACK is held, and becomes a NACK if a client rejects what the
// response brought; what changed nothing is acknowledged at once.
func TestACK7NackWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		cfg := n.config("a")
		cfg.NackWait = 2 * time.Second
		s := run(t, newUpstream(t, cfg), newStore(sub(clusters, "*"), sub(endpoints, "x")), nil)
		ss := srv.accept()
		ss.next()
		ss.next()

		sent := time.Now()
		ss.respond(clusters, "1", "a")
		if ack := ss.answer(); ack.GetErrorDetail() != nil || time.Since(sent) != cfg.NackWait {
			t.Errorf("nobody objected: %v after %v", ack, time.Since(sent))
		}

		// memStore numbers a change for each response: this one is the third.
		ss.respond(clusters, "2", "b")
		ss.respond(endpoints, "3", "x")
		ss.respond(clusters, "4", "c")
		synctest.Wait()
		sent = time.Now()
		s.Reject(endpoints, 99, "a change of no held response")
		s.Reject(endpoints, 3, "no endpoints, please")
		nack := ss.answer()
		if nack.GetResponseNonce() != "3" || nack.GetErrorDetail().GetMessage() != "no endpoints, please" || time.Since(sent) != 0 {
			t.Errorf("rejected: %v after %v", nack, time.Since(sent))
		}
		// The clusters' answers stay in order: the one before a rejected one goes first.
		s.Reject(clusters, 4, "not c")
		if ack := ss.answer(); ack.GetResponseNonce() != "2" || ack.GetErrorDetail() != nil {
			t.Errorf("before the rejected one: %v", ack)
		}
		if nack := ss.answer(); nack.GetResponseNonce() != "4" || nack.GetErrorDetail().GetMessage() != "not c" {
			t.Errorf("rejected: %v", nack)
		}
		s.Reject(clusters, 4, "again") // answered already (STR-8)
		synctest.Wait()
		if st := s.Status(); st.Acks != 2 || st.Nacks != 2 || st.LastRejection == nil {
			t.Errorf("%d ACKs, %d NACKs, last rejection %v", st.Acks, st.Nacks, st.LastRejection)
		}
	})
}

// A response that the relay itself rejects does not overtake the answers that are
// held for its type; those for other types wait on.
func TestACK7HeldBeforeARejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		cfg := n.config("a")
		cfg.NackWait = time.Minute
		s := run(t, newUpstream(t, cfg), newStore(sub(clusters, "*"), sub(endpoints, "x")), nil)
		ss := srv.accept()
		ss.next()
		ss.next()
		ss.respond(endpoints, "1", "x")
		ss.respond(clusters, "2", "a")
		if err := ss.SendMsg(undecodable(t, clusters, "3")); err != nil {
			t.Fatal(err)
		}
		if ack := ss.next(); ack.GetResponseNonce() != "2" || ack.GetErrorDetail() != nil {
			t.Errorf("before the rejected one: %v", ack)
		}
		if nack := ss.next(); nack.GetResponseNonce() != "3" || nack.GetErrorDetail() == nil {
			t.Errorf("rejected: %v", nack)
		}
		synctest.Wait()
		if st := s.Status(); st.Acks != 1 || st.Nacks != 1 {
			t.Errorf("%d ACKs and %d NACKs, want one each: another type's answer is held", st.Acks, st.Nacks)
		}
	})
}

// What is held when the stream ends is forgotten: its nonces mean nothing any more
// (STR-3).
func TestACK7HeldWhenTheStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		cfg := n.config("a")
		cfg.NackWait = time.Minute
		s := run(t, newUpstream(t, cfg), newStore(sub(clusters, "*")), nil)
		ss := srv.accept()
		ss.next()
		ss.respond(clusters, "1", "a")
		synctest.Wait()
		ss.end <- nil
		ss = srv.accept()
		if first := ss.next(); !slices.Equal(wants(first), []string{"*"}) || first.GetResponseNonce() != "" {
			t.Errorf("the new stream begins with %v", first)
		}
		s.Reject(clusters, 1, "too late")
		<-time.After(2 * time.Minute) // of the bubble
		synctest.Wait()
		if st := s.Status(); st.Acks+st.Nacks != 0 {
			t.Errorf("%d ACKs and %d NACKs for a stream that has ended", st.Acks, st.Nacks)
		}
	})
}
