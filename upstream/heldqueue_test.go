package upstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/verdict"
)

// plainHold is heldQueue without its short cuts: each word and each look passes over all
// that is held.
type plainHold struct{ answers []*heldAnswer }

func (p *plainHold) hear(w *verdict.Word, now time.Time, wait time.Duration) {
	for _, a := range p.answers {
		switch {
		case a.decided || !now.Before(a.due) || !a.changes.Touches(w.Of):
		case w.Kind == verdict.Sent:
			if a.afterUnsent == 0 && now.Add(wait).Before(a.due) {
				a.due = now.Add(wait)
			}
			a.afterUnsent = 1
		case w.Kind == verdict.Rejected:
			if !w.Parts || w.Of.Within(a.changes) {
				a.decided, a.reason = true, fmt.Errorf("%s", w.Reason)
			}
		case w.Open != 0 && w.Open <= a.changes.Last:
		default:
			a.decided = true
		}
	}
}

func (p *plainHold) ready(now time.Time) (out []*heldAnswer) {
	for i, a := range slices.Backward(p.answers) {
		if a.reason != nil {
			out, p.answers = append(out, p.answers[:i+1]...), p.answers[i+1:]
			break
		}
	}
	for len(p.answers) > 0 && (p.answers[0].decided || !now.Before(p.answers[0].due)) {
		out, p.answers = append(out, p.answers[0]), p.answers[1:]
	}
	return out
}

// Whatever clients say of whatever changes, the answers are those of a walk over all that
// is held.
func TestACK7HeldQueueModel(t *testing.T) {
	const wait = 10 * time.Second
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 7))
		var q heldQueue
		var p plainHold
		now, last, nonce := time.Unix(1000, 0), uint64(0), 0
		add := func() {
			nonce++
			a := heldAnswer{envelope: envelope{nonce: fmt.Sprint(nonce)}, due: now.Add(2 * wait)}
			a.changes = verdict.Span{First: last + 1, Last: last + uint64(r.IntN(4))}
			last = a.changes.Last
			b := a
			q.push(&a)
			p.answers = append(p.answers, &b)
			if a.changes.Last < a.changes.First {
				q.decide(q.end()-1, nil)
				b.decided = true
			}
		}
		for range 300 {
			now = now.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
			for range r.IntN(4) {
				add()
			}
			for range r.IntN(6) {
				w := verdict.Word{Kind: verdict.Kind(r.IntN(3)), Parts: r.IntN(2) == 0, Reason: fmt.Sprint("bad ", nonce)}
				w.Of.First = 1 + uint64(r.Int64N(int64(last)+2))
				w.Of.Last = w.Of.First + uint64(r.IntN(12))
				if w.Kind == verdict.Accepted && r.IntN(2) == 0 {
					w.Open = 1 + uint64(r.Int64N(int64(last)+2))
				}
				if w.Kind == verdict.Rejected && r.IntN(4) > 0 {
					continue
				}
				q.hear(&w, now, wait)
				p.hear(&w, now, wait)
			}
			got, want := answersOf(q.ready(now)), answersOf(p.ready(now))
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: answered %v, want %v", seed, got, want)
			}
		}
	}
}

func answersOf(answers []*heldAnswer) (out []string) {
	for _, a := range answers {
		out = append(out, fmt.Sprint(a.nonce, a.reason))
	}
	return out
}

// Words about many answers, which most of them change nothing in, do not walk over these
// each time.
func TestACK7HeldQueueWork(t *testing.T) {
	const held = 10_000
	var q heldQueue
	now := time.Unix(1000, 0)
	for i := range uint64(held) {
		q.push(&heldAnswer{due: now.Add(time.Hour), changes: verdict.Span{First: i + 1, Last: i + 1}})
	}
	looks := 0
	counted := func(a *heldAnswer) *int {
		looks++
		return unsent(a)
	}
	for client := range uint64(held) {
		w := verdict.Word{Kind: verdict.Sent, Of: verdict.Span{First: client%7 + 1, Last: held}}
		q.hear(&w, now, time.Minute)
		if pos := q.from(int(client%7), counted); pos != q.end() {
			t.Fatalf("answer %d counts as not sent", pos)
		}
	}
	if most := 20 * held; looks > most {
		t.Errorf("%d looks for %d words about %d answers, want at most %d", looks, held, held, most)
	}
	// From behind, so that nothing is answered before the last word.
	for i := uint64(held); i > 0; i-- {
		if n := len(q.ready(now)); n > 0 {
			t.Fatalf("%d answers do not wait for the first", n)
		}
		w := verdict.Word{Kind: verdict.Accepted, Of: verdict.Span{First: i, Last: held}}
		if !q.hear(&w, now, time.Minute) {
			t.Fatalf("the word about change %d says nothing new", i)
		}
	}
	if n := len(q.ready(now)); n != held {
		t.Errorf("%d of %d answers are ready", n, held)
	}
}
