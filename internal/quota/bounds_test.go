package quota

import "testing"

func TestBounds_LIM1(t *testing.T) {
	const free = 10
	who := func(addr string) func() Client {
		return func() Client { return Client{Address: AddressOf(addr + ":1")} }
	}
	one, two := who("10.0.0.1"), who("10.0.0.2")
	for name, f := range map[string]func(t *testing.T, b *Bounds){
		"the first ones of each part are free": func(t *testing.T, b *Bounds) {
			t.Helper()
			for range 1000 {
				if p := b.Begin(); p.Grow(free, one) != free || !p.Add(0, one) || b.Taken() != 0 {
					t.Fatal("what is free counts")
				}
			}
		},
		"a part grows as far as there is room": func(t *testing.T, b *Bounds) {
			t.Helper()
			p, q, r := b.Begin(), b.Begin(), b.Begin()
			if got := p.Grow(1000, one); got != free+90 { // all but a tenth
				t.Errorf("one has %d", got)
			}
			if got := q.Grow(1000, two); got != free+5 { // its share
				t.Errorf("another one has %d", got)
			}
			if got := q.Grow(12, two); got != free+5 {
				t.Errorf("growing made it %d", got)
			}
			if q.Add(1, two) {
				t.Error("it may have more than its share")
			}
			q.Set(free+7, two) // whatever there is
			if got := r.Grow(1000, who("10.0.0.3")); got != free+3 || b.Taken() != 100 {
				t.Errorf("the third one has %d, %d are taken", got, b.Taken())
			}
			p.Set(free+5, one)
			q.End()
			q.End()
			if r.End(); b.Taken() != 5 || len(b.large) != 1 || b.usage.Counting() {
				t.Errorf("%d are taken by %d", b.Taken(), len(b.large))
			}
			if p.Set(0, one); b.Taken() != 0 || len(b.large) != 0 {
				t.Errorf("%d are taken by %d", b.Taken(), len(b.large))
			}
		},
		"without a limit there is room for all": func(t *testing.T, b *Bounds) {
			t.Helper()
			b.Set(Limit{})
			if p := b.Begin(); p.Grow(1<<30, one) != 1<<30 || b.Taken() != 1<<30-free {
				t.Errorf("%d are taken", b.Taken())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBounds(free)
			b.Set(Limit{Most: 100, Share: 0.05})
			f(t, b)
		})
	}
}
