package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// machine has processors, and works of clients that join need them for a time.
type machine struct {
	*testing.T

	admission  *Admission
	processors chan struct{}

	mu      sync.Mutex
	took    []time.Duration // of those that joined, with the wait
	refused []time.Duration // of those that did not
	done    []time.Duration // when those joined, since began
	began   time.Time
	clients sync.WaitGroup
}

const processors = 2

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t, admission: newAdmission(nil, nil, perProcessor*processors), processors: make(chan struct{}, processors), began: time.Now()}
	return m
}

// compute takes processors, as many others may.
func (m *machine) compute(d time.Duration) {
	const slice = time.Millisecond
	for ; d > 0; d -= slice {
		m.processors <- struct{}{}
		<-time.After(min(d, slice))
		<-m.processors
	}
}

// stranger is a client of its own.
func stranger() From { return From{new(int), new(int)} }

// joins has a client join once.
func (m *machine) joins(from From, work time.Duration) error {
	came := time.Now()
	turn, err := m.admission.Join(m.Context(), from)
	if err == nil {
		m.compute(work)
		turn.Done()
	}
	took := time.Since(came)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.refused = append(m.refused, took)
		return err
	}
	m.took = append(m.took, took)
	m.done = append(m.done, time.Since(m.began))
	return nil
}

// arrive has clients come for a time, so many in a second.
func (m *machine) arrive(perSecond int, during, work time.Duration) {
	pause := time.Second / time.Duration(perSecond)
	for end := time.Now().Add(during); time.Now().Before(end); {
		m.clients.Go(func() { _ = m.joins(stranger(), work) })
		<-time.After(pause)
	}
}

// reset forgets what was measured.
func (m *machine) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.took, m.refused, m.done, m.began = nil, nil, nil, time.Now()
}

func (m *machine) joined() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.took)
}

func (m *machine) p99() time.Duration {
	m.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.took) == 0 {
		m.Fatal("nobody joined")
	}
	slices.Sort(m.took)
	return m.took[len(m.took)*99/100]
}

// atRest checks that nothing is left when nobody joins.
func (m *machine) atRest() {
	m.Helper()
	synctest.Wait()
	if s := m.admission.Status(); s.Working != 0 || s.Waiting[Join] != 0 || s.Waiting[Handshake] != 0 {
		m.Errorf("LIM-1: at rest: %+v", s)
	}
}

func onMachine(t *testing.T, f func(m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		f(m)
		m.clients.Wait()
		m.atRest()
	})
}

// With three times as many clients as there is capacity for, those that join do so within the wait, as many
// as without the others. The rest is told at once as soon as the queue is longer than the wait. Then all is as before.
func TestOverload_LIM1(t *testing.T) {
	onMachine(t, func(m *machine) {
		const work, capacity, during, wait = 2 * time.Millisecond, 1000, 10 * time.Second, 2 * time.Second
		m.admission.SetWait(wait)
		m.arrive(3*capacity, during, work)
		m.clients.Wait()
		if p := m.p99(); p > wait+time.Second/5 {
			t.Errorf("LIM-1: the p99 of joins is %v", p)
		}
		served := len(m.took)
		if want := int(capacity * (during + wait).Seconds() * 0.98); served < want {
			t.Errorf("LIM-1: %d joined, want %d", served, want)
		}
		late := 0
		for _, told := range m.refused {
			if told > 0 {
				late++
			}
		}
		if late > len(m.refused)/10 {
			t.Errorf("LIM-1: %d of %d were not told at once", late, len(m.refused))
		}
		t.Logf("%d joined (p99 %v), %d were refused", served, m.p99(), len(m.refused))
		m.reset()
		m.arrive(capacity/2, during, work)
		m.clients.Wait()
		if p := m.p99(); len(m.refused) > 0 || p > 10*work {
			t.Errorf("LIM-1: after the overload %d were refused, and the p99 is %v", len(m.refused), p)
		}
	})
}

// With clients for nearly the whole capacity nobody is refused, and with any number of slow ones that do not
// compute neither: those wait for a control plane, or for themselves.
func TestFreeCapacity_LIM1(t *testing.T) {
	onMachine(t, func(m *machine) {
		m.arrive(900, 10*time.Second, 2*time.Millisecond)
		m.clients.Wait()
		if p := m.p99(); len(m.refused) > 0 || p > 50*time.Millisecond {
			t.Errorf("LIM-1: %d were refused, and the p99 is %v", len(m.refused), p)
		}
	})
	onMachine(t, func(m *machine) {
		m.clients.Go(func() { m.arrive(30, 5*time.Second, 2*time.Millisecond) })
		for range overrunMost * m.admission.places.most {
			turn, err := m.admission.Join(m.Context(), From{})
			if err != nil {
				t.Fatal(err)
			}
			m.clients.Go(func() {
				<-time.After(30 * time.Second) // it waits for something
				turn.Done()
			})
		}
		<-time.After(10 * time.Second)
		if len(m.refused) > 0 {
			t.Errorf("LIM-1: %d were refused since others wait", len(m.refused))
		}
	})
}

// All of 5,000 clients that come at the same time join in order, and none is refused.
func TestStorm_LIM1(t *testing.T) {
	onMachine(t, func(m *machine) {
		const fleet = 5000
		for range fleet {
			from := stranger()
			m.clients.Go(func() {
				_ = m.joins(from, 2*time.Millisecond)
			})
		}
		m.clients.Wait()
		last := slices.Max(m.done)
		if len(m.took) != fleet || len(m.refused) > 0 || last > 5500*time.Millisecond {
			t.Errorf("LIM-1: %d joined within %v, %d were refused", len(m.took), last, len(m.refused))
		}
	})
}

// One connection with any number of streams has its turn as often as each other one.
func TestFairness_LIM1(t *testing.T) {
	onMachine(t, func(m *machine) {
		const work, others = 2 * time.Millisecond, 100
		greedy := stranger()
		for range 5000 {
			m.clients.Go(func() { _ = m.joins(greedy, work) })
		}
		synctest.Wait()
		var left sync.WaitGroup
		for range others {
			left.Go(func() {
				if err := m.joins(stranger(), work); err != nil {
					t.Errorf("LIM-1: %v", err)
				}
			})
		}
		left.Wait()
		if n := m.joined(); n > 3*others {
			t.Errorf("LIM-1: %d joined until %d connections with one stream had", n, others)
		}
	})
}

// One client has its turn as often as each other one, however many connections it has.
func TestFairnessOfParties_LIM2(t *testing.T) {
	onMachine(t, func(m *machine) {
		const work, others = 2 * time.Millisecond, 50
		attacker := new(int)
		m.admission.SetWait(time.Second)
		for i := range 5000 {
			from := From{attacker, new(int)}
			if i%2 == 0 {
				from.Connection = nil // a poll
			}
			m.clients.Go(func() { _ = m.joins(from, work) })
		}
		<-time.After(paceKnown) // the attacker's own next turn would be later than the wait
		came := time.Now()
		if err := m.joins(From{attacker, new(int)}, work); err == nil || time.Since(came) > 0 {
			t.Errorf("LIM-1: %v after %v, and the attacker's queue is longer than the wait", err, time.Since(came))
		}
		m.reset()
		var left sync.WaitGroup
		for range others {
			left.Go(func() {
				if err := m.joins(stranger(), work); err != nil {
					t.Errorf("LIM-2: %v", err)
				}
			})
		}
		left.Wait()
		if n := m.joined(); n > 3*others {
			t.Errorf("LIM-2: %d joined until %d others had", n, others)
		}
	})
}

// A handshake has a place while it computes only, one that has begun goes first, then streams, and
// new handshakes have their turns beside them. Connections that have waited for long give way to those that came last.
func TestHandshakes_LIM1(t *testing.T) {
	onMachine(t, func(m *machine) {
		a := m.admission
		var slow []*Shake
		for range 100 { // they say hello, and nothing after it
			s := a.Handshake(m.Context())
			s.Pause()
			if err := s.Resume(); err != nil {
				t.Fatal(err)
			}
			s.Pause()
			slow = append(slow, s)
		}
		if n := a.Status().Working; n != 0 {
			t.Fatalf("LIM-1: %d handshakes compute that wait for their clients", n)
		}
		var held []*Turn
		for range a.places.most {
			turn, err := a.Join(m.Context(), From{})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, turn)
		}
		var order []string
		waits := func(name string, f func() error, done func()) {
			m.clients.Go(func() {
				if err := f(); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				order = append(order, name)
				done()
			})
			synctest.Wait()
		}
		hello := func(name string) {
			s := a.Handshake(m.Context())
			waits(name, s.Resume, func() { s.End(true) })
		}
		join := func(name string) {
			var turn *Turn
			waits(name, func() (err error) { turn, err = a.Join(m.Context(), From{}); return err }, func() { turn.Done() })
		}
		hello("hello 1")
		hello("hello 2")
		for i := range joinsInRow + 1 {
			join(fmt.Sprint("join ", i+1))
		}
		waits("rest", slow[0].Resume, func() { slow[0].End(true) })
		held[0].Done()
		synctest.Wait()
		if want := []string{"rest", "join 1", "join 2", "join 3", "join 4", "hello 1", "join 5", "hello 2"}; !slices.Equal(order, want) {
			t.Errorf("LIM-1: they had their turns as %q, want %q", order, want)
		}
		for _, turn := range held[1:] {
			turn.Done()
		}
		for _, s := range slow[1:] {
			s.End(false)
		}
	})
}

// A handshake whose context ends waits for no place any more, neither at its beginning nor after it.
func TestHandshakesEnd_LIM1(t *testing.T) {
	onMachine(t, func(m *machine) {
		a := m.admission
		ctx, end := context.WithCancel(m.Context())
		begun := a.Handshake(ctx)
		if err := begun.Resume(); err != nil {
			t.Fatal(err)
		}
		begun.Pause()
		var held []*Turn
		for range a.places.most {
			turn, err := a.Join(m.Context(), From{})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, turn)
		}
		came := time.Now()
		for _, s := range []*Shake{begun, a.Handshake(ctx)} {
			m.clients.Go(func() {
				if err := s.Resume(); !errors.Is(err, context.Canceled) || time.Since(came) > 0 {
					t.Errorf("LIM-1: %v after %v, want the context's", err, time.Since(came))
				}
				s.End(false)
			})
		}
		synctest.Wait()
		if n := a.Status().Waiting[Handshake]; n != 2 {
			t.Errorf("LIM-1: %d handshakes wait, want 2", n)
		}
		end()
		m.clients.Wait()
		if n := a.Status().Waiting[Handshake]; n != 0 {
			t.Errorf("LIM-1: %d handshakes wait that are over", n)
		}
		for _, turn := range held {
			turn.Done()
		}
	})
}

func TestStaleHandshakes_LIM1(t *testing.T) {
	onMachine(t, func(m *machine) {
		a := m.admission
		const n, work = 5000, 2 * time.Millisecond // five seconds
		begun := make(chan int, n+1)
		shake := func(i int) {
			s := a.Handshake(m.Context())
			err := s.Resume()
			if err == nil {
				begun <- i
				m.compute(work)
			} else if !errors.Is(err, ErrLate) {
				t.Error(err)
			}
			s.End(err == nil)
		}
		for i := range n {
			m.clients.Go(func() { shake(i) })
		}
		<-time.After(2 * time.Second)
		came := time.Now()
		shake(-1)
		if took := time.Since(came); took > 50*time.Millisecond {
			t.Errorf("LIM-1: a connection that came last took %v, since others have waited for long", took)
		}
		m.clients.Wait()
		if len(begun) != n+1 {
			t.Errorf("LIM-1: %d connections began, want %d: there was time for all", len(begun), n)
		}
	})
}

type observed struct {
	mu      sync.Mutex
	took    map[Work]int
	refused map[Reason]int
}

func (o *observed) Admitted(w Work, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took[w]++
}

func (o *observed) Refused(_ Work, r Reason) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused[r]++
}

// Memory decides, too: new scopes wait at one level, streams, polls and connections at the other.
func TestAdmissionByMemory_LIM3(t *testing.T) {
	memory, seen := NewMemory(1000, func() int64 { return 0 }), &observed{took: make(map[Work]int), refused: make(map[Reason]int)}
	a := NewAdmission(memory, seen)
	for level, want := range map[Level]struct{ scope, rest bool }{Calm: {true, true}, Tight: {false, true}, Full: {false, false}} {
		memory.level.Store(int32(level))
		scope := a.Scope()
		turn, join := a.Join(t.Context(), From{})
		turn.Done()
		turn.Done()
		s := a.Handshake(t.Context())
		shake := s.Resume()
		s.End(shake == nil)
		poll, again := a.Poll(t.Context(), From{})
		poll.Done()
		for what, got := range map[string]error{"a join": join, "a handshake": shake, "a poll": again} {
			if (got == nil) != want.rest || got != nil && !errors.Is(got, ErrMemory) {
				t.Errorf("LIM-3: %s while memory is %s: %v", what, level, got)
			}
		}
		if (scope == nil) != want.scope {
			t.Errorf("LIM-3: a scope while memory is %s: %v", level, scope)
		}
	}
	if seen.took[Join] != 2 || seen.took[Handshake] != 2 || seen.took[Poll] != 2 || seen.refused[NoMemory] != 3 {
		t.Errorf("LIM-3: %v, refused %v", seen.took, seen.refused)
	}
	if err := (*Admission)(nil).Scope(); err != nil {
		t.Error(err)
	}
}

// Polls of clients that were served before and joins have turns one by one, and both are told when their wait is over.
func TestPollsAndJoinsTakeTurns_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &observed{took: make(map[Work]int), refused: make(map[Reason]int)}
		a := newAdmission(nil, seen, 1)
		first, err := a.Join(t.Context(), stranger())
		if err != nil {
			t.Fatal(err)
		}
		var order []Work
		done := make(chan struct{})
		comes := func(n int, f func(context.Context, From) (*Turn, error)) {
			for range n {
				go func() {
					turn, err := f(t.Context(), stranger())
					if err == nil {
						order = append(order, turn.work)
						turn.Done()
					}
					done <- struct{}{}
				}()
				synctest.Wait()
			}
		}
		const many = 20
		comes(many, a.Join)
		comes(2, a.Poll)
		if s := a.Status(); s.Waiting[Join] != many || s.Waiting[Poll] != 2 {
			t.Errorf("LIM-1: %+v", s)
		}
		first.Done()
		for range many + 2 {
			<-done
		}
		if want := []Work{Poll, Join, Poll, Join, Join}; !slices.Equal(order[:len(want)], want) {
			t.Errorf("LIM-1: turns went to %v, want %v", order[:len(want)], want)
		}
		for range 1 + overrunMost {
			if _, err := a.Poll(t.Context(), stranger()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Poll(t.Context(), stranger()); !errors.Is(err, ErrLate) || seen.refused[Late] != 1 {
			t.Errorf("LIM-1: a poll whose wait is over is told %v, refused %v", err, seen.refused)
		}
	})
}

// Who leaves, whose wait is over, and who waits at the end, is told why, and keeps no place.
func TestLeaving_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &observed{took: make(map[Work]int), refused: make(map[Reason]int)}
		a := newAdmission(nil, seen, 1)
		var held []*Turn
		for range 1 + overrunMost {
			turn, err := a.Join(t.Context(), From{})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, turn)
		}
		if s := a.Status(); s.Places != 1 || s.Working != 1+overrunMost {
			t.Fatalf("%+v", s)
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, leave)
		for name, tt := range map[string]struct {
			ctx  context.Context
			from From
			want error
		}{"left": {gone, From{}, context.Canceled}, "waited": {t.Context(), From{1, 1}, ErrLate}} {
			if _, err := a.Join(tt.ctx, tt.from); !errors.Is(err, tt.want) {
				t.Errorf("LIM-1: who %s is told %v", name, err)
			}
		}
		a.SetOff(true)
		turn, err := a.Join(t.Context(), From{})
		if err != nil {
			t.Errorf("LIM-1: %v while it is off", err)
		}
		turn.Done()
		if s := a.Status(); s.Places != 0 {
			t.Errorf("%+v while it is off", s)
		}
		a.SetOff(false)
		ended := make(chan error)
		for _, from := range []From{{}, {1, 1}, {1, 1}} {
			go func() { _, err := a.Join(t.Context(), from); ended <- err }()
		}
		synctest.Wait()
		a.Close()
		for range 3 {
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Errorf("LIM-1: who waits at the end is told %v", err)
			}
		}
		for _, turn := range held {
			turn.Done()
		}
		if _, err := a.Join(t.Context(), From{}); !errors.Is(err, ErrClosed) {
			t.Errorf("LIM-1: who comes after the end is told %v", err)
		}
		if s := a.Status(); s.Working != 0 || s.Waiting[Join] != 0 {
			t.Errorf("%+v", s)
		}
		if seen.refused[Late] != 1 {
			t.Errorf("%v", seen.refused)
		}
	})
}

// A client that leaves in the moment in which it has its turn leaves its place to others.
func TestLeavingWithTurn_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(nil, nil, 1)
		for i := range 200 {
			held, err := a.Join(t.Context(), From{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if turn, err := a.Join(ctx, From{i, i}); err == nil {
					turn.Done()
				}
			}()
			synctest.Wait()
			go leave()
			go held.Done()
			<-done
			synctest.Wait()
			if s := a.Status(); s.Working != 0 || s.Waiting[Join] != 0 {
				t.Fatalf("LIM-1: %+v", s)
			}
		}
	})
}

// BenchmarkJoin measures what a client costs that joins while there are places.
func BenchmarkJoin(b *testing.B) {
	a := NewAdmission(nil, nil)
	from := stranger()
	b.ReportAllocs()
	for b.Loop() {
		turn, err := a.Join(b.Context(), from)
		if err != nil {
			b.Fatal(err)
		}
		turn.Done()
	}
}
