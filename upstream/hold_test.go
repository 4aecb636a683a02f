package upstream

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// word is what a client makes of one change. memStore numbers a change for each response.
func word(kind ack.Kind, typeURL string, change uint64) ack.Outcome {
	return ack.Outcome{Kind: kind, TypeURL: typeURL, Of: ack.Span{First: change, Last: change}}
}

func rejected(typeURL string, change uint64, reason string) ack.Outcome {
	w := word(ack.Rejected, typeURL, change)
	w.Reason = reason
	return w
}

const nackWait = 2 * time.Second

// heldAnswers is a session whose answers wait for clients.
type heldAnswers struct {
	t     *testing.T
	s     *running
	ss    *serverStream
	srv   *server
	store *memStore
	obs   *recorder
	began time.Time
}

// withHeld runs f with a session that has subscribed to clusters and endpoints.
func withHeld(t *testing.T, name string, f func(h *heldAnswers), change ...func(*Config)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			srv := n.serve("a")
			cfg := n.config("a")
			cfg.Nack.Wait = nackWait
			for _, c := range change {
				c(&cfg)
			}
			store := newStore(sub(clusters, "*"), sub(endpoints, "x"))
			obs := &recorder{}
			s := run(t, newUpstream(t, cfg), store, obs)
			ss := srv.accept()
			ss.next()
			ss.next()
			f(&heldAnswers{t: t, s: s, ss: ss, srv: srv, store: store, obs: obs, began: time.Now()})
		})
	})
}

// after lets time pass.
func (h *heldAnswers) after(d time.Duration) {
	<-time.After(d) // of the bubble
	synctest.Wait()
}

// respond has the server send something, and the session take it.
func (h *heldAnswers) respond(typeURL, nonce string, names ...string) {
	h.ss.respond(typeURL, nonce, names...)
	synctest.Wait()
}

// tell has a client say something.
func (h *heldAnswers) tell(w ack.Outcome) {
	h.s.Tell(w)
	synctest.Wait()
}

// answers compares how many answers went out.
func (h *heldAnswers) answers(acks, nacks uint64) {
	h.t.Helper()
	synctest.Wait()
	if st := h.s.Status(); st.Acks != acks || st.Nacks != nacks {
		h.t.Errorf("%d ACKs and %d NACKs after %v, want %d and %d", st.Acks, st.Nacks, time.Since(h.began), acks, nacks)
	}
}

// next compares the next answer: its nonce, and the reason if it is a NACK.
func (h *heldAnswers) next(want string) {
	h.t.Helper()
	r := h.ss.answer()
	got := r.GetResponseNonce()
	if d := r.GetErrorDetail(); d != nil {
		got = fmt.Sprintf("%s: %s", got, d.GetMessage())
	}
	if got != want {
		h.t.Errorf("answered %q, want %q", got, want)
	}
}

// The ACK waits for the clients that are sent the content, and becomes the NACK if one of
// them rejects it before as many as it takes have accepted it.
func TestACK7Hold(t *testing.T) {
	hold := func(name string, f func(h *heldAnswers), change ...func(*Config)) {
		t.Helper()
		withHeld(t, name, f, change...)
	}
	hold("ACK-7 the first client that accepts it ends the wait", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.tell(word(ack.Sent, clusters, 1))
		h.answers(0, 0)
		h.tell(word(ack.Accepted, clusters, 1))
		h.next("1")
		h.tell(rejected(clusters, 1, "too late"))
		h.answers(1, 0)
	})
	hold("ACK-7 a client that rejects it first makes the ACK a NACK", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.tell(rejected(clusters, 1, "not a"))
		h.tell(word(ack.Accepted, clusters, 1)) // too late
		h.next("1: not a")
		h.tell(rejected(clusters, 1, "again")) // answered already (STR-8)
		h.answers(0, 1)
	})
	hold("ACK-7 nack_wait is counted from when the first client was sent it", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.after(nackWait / 2)
		h.tell(word(ack.Sent, clusters, 1))
		h.after(nackWait / 2)
		h.tell(word(ack.Sent, clusters, 1))
		h.after(nackWait/2 - 1)
		h.answers(0, 0)
		h.after(1)
		h.next("1")
	})
	hold("ACK-7 nobody is waited for longer than twice nack_wait", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.after(2*nackWait - 1)
		h.answers(0, 0)
		h.tell(word(ack.Sent, clusters, 1))
		h.after(1)
		h.next("1")
	})
	hold("ACK-7 nothing is waited for where nobody is sent anything", func(h *heldAnswers) {
		h.store.get(func(s *memStore) { s.deaf = true })
		h.respond(clusters, "1", "a")
		h.next("1")
		h.store.get(func(s *memStore) { s.deaf = false })
		h.respond(clusters, "2") // removals only
		h.next("2")
		h.store.get(func(s *memStore) { s.same = true }) // as what comes again after its NACK
		h.respond(clusters, "3", "a")
		h.next("3")
		h.answers(3, 0)
	})
	hold("ACK-7 words about other content say nothing", func(h *heldAnswers) {
		h.respond(endpoints, "1", "x")
		h.respond(clusters, "2", "a")
		h.tell(rejected(endpoints, 2, "another type"))
		h.tell(rejected(clusters, 1, "an older change"))
		h.tell(rejected(clusters, 3, "a change of no response"))
		h.answers(0, 0)
		h.tell(word(ack.Accepted, clusters, 2))
		h.next("2")
		h.answers(1, 0)
	})
	hold("ACK-7 the next response of the type ends the wait, that of another does not", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.tell(word(ack.Sent, clusters, 1))
		h.respond(endpoints, "2", "x")
		h.answers(0, 0)
		h.respond(clusters, "3", "c")
		h.next("1")
		h.tell(rejected(clusters, 1, "too late"))
		h.tell(rejected(endpoints, 2, "no endpoints, please"))
		h.next("2: no endpoints, please")
		h.tell(word(ack.Accepted, clusters, 3))
		h.next("3")
		h.answers(2, 1)
	})
	hold("ACK-7 the next request of the type ends the wait", func(h *heldAnswers) {
		h.respond(endpoints, "1", "x")
		h.respond(clusters, "2", "a")
		h.store.want(0, []wire.Subscription{sub(clusters, "*"), sub(endpoints, "x", "y")}, sub(endpoints, "y"))
		h.next("1")
		if r := h.ss.next(); !slices.Equal(wants(r), []string{"y"}) {
			t.Errorf("behind the ACK goes %v", r)
		}
		h.answers(1, 0)
	})
	hold("ACK-7 of a response in parts the last one is waited for", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		w := word(ack.Accepted, clusters, 1)
		w.Open = 1
		h.tell(w)
		h.answers(0, 0)
		w.Open = 2 // a later response of the relay's
		h.tell(w)
		h.next("1")
	})
	hold("ACK-7 ACK-3 nothing counts against a response that stood with others until it stands alone", func(h *heldAnswers) {
		h.respond(endpoints, "1", "x")
		h.respond(clusters, "2", "b")
		w := rejected(clusters, 2, "not a")
		w.Of.First, w.Parts = 1, true
		h.tell(w)
		h.answers(0, 0)
		part := rejected(clusters, 2, "not b")
		part.PartOf = w.Of
		h.tell(part)
		h.next("2: not b")
	})
	hold("ACK-7 a list that goes to the client no more counts against what was new in it", func(h *heldAnswers) {
		h.respond(endpoints, "1", "x")
		h.respond(clusters, "2", "b")
		w := rejected(clusters, 2, "not this list")
		w.Of.First = 1
		h.tell(w)
		h.next("2: not this list")
	})
	hold("ACK-7 what a client accepts of what it rejected does not count", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		w := word(ack.Accepted, clusters, 1)
		w.PartOf = ack.Span{First: 1, Last: 1}
		h.tell(w)
		h.answers(0, 0)
	})
	tenth := func(c *Config) { c.Nack.Share = 0.1 }
	hold("ACK-7 nack_share of the clients that were sent it has to reject it", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		for range 11 {
			h.tell(word(ack.Sent, clusters, 1))
		}
		h.tell(rejected(clusters, 1, "the first"))
		h.answers(0, 0)
		h.tell(rejected(clusters, 1, "the second"))
		h.next("1: the first")
	}, tenth)
	hold("ACK-7 fewer than nack_share do not", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		for range 11 {
			h.tell(word(ack.Sent, clusters, 1))
		}
		h.tell(rejected(clusters, 1, "only one"))
		h.after(nackWait)
		h.next("1")
		h.respond(clusters, "2", "a")
		for range 11 {
			h.tell(word(ack.Sent, clusters, 2))
		}
		h.tell(rejected(clusters, 2, "only one"))
		h.tell(word(ack.Accepted, clusters, 2))
		h.next("2")
	}, tenth)
	hold("ACK-7 ACK-3 a client counts once, however many responses it is sent of the content", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		sent := word(ack.Sent, clusters, 1)
		h.tell(sent)
		sent.Open = 1 // further responses
		for range 20 {
			h.tell(sent)
		}
		sent.Open, sent.PartOf = 0, ack.Span{First: 1, Last: 1} // parts of what it rejected
		for range 20 {
			h.tell(sent)
		}
		h.tell(rejected(clusters, 1, "the only one"))
		h.next("1: the only one")
		h.respond(clusters, "2", "a")
		for range 20 {
			h.tell(word(ack.Sent, clusters, 2))
		}
		h.tell(rejected(clusters, 2, "as a whole"))
		part := rejected(clusters, 2, "in parts")
		part.PartOf = ack.Span{First: 2, Last: 2}
		for range 20 {
			h.tell(part)
		}
		h.answers(0, 1)
	}, tenth)
	hold("ACK-7 a client that is a relay is waited for longer", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		sent := word(ack.Sent, clusters, 1)
		sent.Relay = true
		h.tell(sent)
		h.after(3*nackWait - 1)
		h.answers(0, 0)
		h.after(1)
		h.next("1")
	}, func(c *Config) { c.Nack.RelayWait = 3 * nackWait })
	hold("ACK-7 after three waits that ran out nobody is waited for until a client answers in time", func(h *heldAnswers) {
		for i := range uint64(maxUnheard) {
			h.respond(clusters, fmt.Sprint(i+1), "a")
			h.tell(word(ack.Sent, clusters, i+1))
			h.after(nackWait - 1)
			h.answers(i, 0)
			h.after(1)
			h.next(fmt.Sprint(i + 1))
		}
		h.obs.locked(func() {
			if h.obs.overdue != maxUnheard {
				h.t.Errorf("%d waits that ran out were counted", h.obs.overdue)
			}
		})
		h.respond(clusters, "4", "a")
		h.next("4")
		h.tell(word(ack.Sent, clusters, 4))
		h.after(nackWait)
		h.tell(word(ack.Accepted, clusters, 4)) // too late
		h.respond(clusters, "5", "a")
		h.next("5")
		h.respond(endpoints, "6", "x")
		h.tell(rejected(endpoints, 6, "another type"))
		h.next("6: another type")
		h.respond(clusters, "7", "a")
		h.next("7")
		h.tell(word(ack.Sent, clusters, 7))
		h.after(nackWait - 1)
		h.tell(rejected(clusters, 7, "in time, but acknowledged"))
		h.respond(clusters, "8", "a")
		h.answers(6, 1)
		h.tell(rejected(clusters, 8, "not a"))
		h.next("8: not a")
	})
	repeats := func(again bool) func(s *memStore) { return func(s *memStore) { s.same, s.again = true, again } }
	hold("ACK-7 SUR-8 what comes again after its NACK is answered by what clients say then", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.tell(rejected(clusters, 1, "not a"))
		h.next("1: not a")
		h.store.get(repeats(true))
		h.respond(clusters, "2", "a")
		h.after(100 * time.Millisecond)
		h.tell(word(ack.Sent, clusters, 1))
		h.tell(rejected(clusters, 1, "still not a"))
		h.after(nackPause - 100*time.Millisecond - 1)
		h.answers(0, 1)
		h.after(1)
		h.next("2: still not a")
		h.respond(clusters, "3", "a")
		h.answers(0, 2)
		h.tell(word(ack.Accepted, clusters, 1))
		h.next("3")
	})
	hold("ACK-7 nothing is waited for where nobody is offered it again", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.tell(rejected(clusters, 1, "not a"))
		h.next("1: not a")
		h.store.get(repeats(false))
		h.respond(clusters, "2", "a")
		h.next("2")
		h.store.get(repeats(true))
		h.respond(clusters, "3", "b") // other content brings nothing new
		h.next("3")
	})
	hold("ACK-7 ACK-3 what comes again while a client finds out what is bad of it waits for that", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		w := rejected(clusters, 1, "one of these")
		w.Parts = true
		h.tell(w)
		h.next("1: one of these")
		h.store.get(repeats(false))
		h.respond(clusters, "2", "a")
		part := word(ack.Accepted, clusters, 1)
		part.PartOf = w.Of
		h.tell(part)
		h.answers(0, 1)
		part.Kind, part.Reason = ack.Rejected, "this one"
		h.tell(part)
		h.after(nackPause)
		h.next("2: this one")
		h.respond(clusters, "3", "a") // it stands alone, and nobody is offered it
		h.next("3")
	})
	hold("ACK-7 waits for what comes again do not count among those that ran out", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.tell(rejected(clusters, 1, "not a"))
		h.next("1: not a")
		for i := range uint64(2 * maxUnheard) {
			h.store.get(repeats(true))
			h.respond(clusters, fmt.Sprint(i+2), "a")
			h.answers(i, 1)
			h.after(2 * nackWait)
			h.next(fmt.Sprint(i + 2))
		}
	})
	hold("ACK-7 a wait that a response ends has not run out", func(h *heldAnswers) {
		for i := range uint64(2 * maxUnheard) {
			h.respond(clusters, fmt.Sprint(i+1), "a")
			h.answers(i, 0)
			h.tell(word(ack.Sent, clusters, i+1))
		}
	})
}

// A client may answer before the session has looked at what the response changed.
func TestACK7QuickClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		cfg := n.config("a")
		cfg.Nack.Wait = time.Minute
		store := &quickStore{memStore: newStore(sub(clusters, "*"))}
		s := run(t, newUpstream(t, cfg), store, nil)
		ss := srv.accept()
		ss.next()
		store.applied = func(change uint64) {
			if change == 1 {
				s.Tell(word(ack.Sent, clusters, change))
				s.Tell(word(ack.Accepted, clusters, change))
			} else {
				s.Tell(rejected(clusters, change, "not b"))
			}
		}
		ss.respond(clusters, "1", "a")
		if ack := ss.answer(); ack.GetErrorDetail() != nil {
			t.Errorf("accepted, and answered with %v", ack)
		}
		ss.respond(clusters, "2", "b")
		if nack := ss.answer(); nack.GetErrorDetail().GetMessage() != "not b" {
			t.Errorf("rejected, and answered with %v", nack)
		}
	})
}

// quickStore calls a function with the number of each change before Apply returns.
type quickStore struct {
	*memStore

	applied func(change uint64)
}

func (q *quickStore) Apply(stream wire.StreamID, r *wire.Response, at time.Time) error {
	err := q.memStore.Apply(stream, r, at)
	q.applied(q.Sequence())
	return err
}

// A response that the relay itself rejects does not overtake the answers that are
// held for its type; those for other types wait on.
func TestACK7HeldBeforeARejection(t *testing.T) {
	withHeld(t, "ACK-7", func(h *heldAnswers) {
		h.respond(endpoints, "1", "x")
		h.respond(clusters, "2", "a")
		if err := h.ss.SendMsg(undecodable(t, clusters, "3")); err != nil {
			t.Fatal(err)
		}
		if ack := h.ss.next(); ack.GetResponseNonce() != "2" || ack.GetErrorDetail() != nil {
			t.Errorf("before the rejected one: %v", ack)
		}
		if nack := h.ss.next(); nack.GetResponseNonce() != "3" || nack.GetErrorDetail() == nil {
			t.Errorf("rejected: %v", nack)
		}
		h.answers(1, 1) // another type's answer is held
	})
}

// What is held when the stream ends is forgotten: its nonces mean nothing any more
// (STR-3).
func TestACK7HeldWhenTheStreamEnds(t *testing.T) {
	withHeld(t, "ACK-7", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.ss.end <- nil
		ss := h.srv.accept()
		if first := ss.next(); !slices.Equal(wants(first), []string{"*"}) || first.GetResponseNonce() != "" {
			t.Errorf("the new stream begins with %v", first)
		}
		h.tell(rejected(clusters, 1, "too late"))
		h.after(2 * time.Minute)
		h.answers(0, 0)
		if n := h.s.client().held.count.Load(); n != 0 {
			t.Errorf("%d responses are listened for", n)
		}
	})
}

// The log says what is cached and served after a rejection: that of a client changes nothing.
func TestACK7Cached(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		reason     error
	}{
		{"ACK-7 a client rejects it", "the response: a client rejected it, others may use it", &clientError{errNotAsked}},
		{"ACK-6 a part of it is bad", "the response without the rejected part: of that the resources from before", partial{}},
		{"ACK-6 all of it is bad", "the resources from before", errNotAsked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cached(tt.reason); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

type partial struct{}

func (partial) Error() string { return "a name is bad" }
func (partial) Partial() bool { return true }
