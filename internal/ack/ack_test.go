package ack

import "testing"

func TestSpan_ACK7(t *testing.T) {
	of := func(changes ...uint64) (s Span) {
		for _, c := range changes {
			s.Add(c)
		}
		return s
	}
	if got, want := of(7, 3, 5), (Span{3, 7}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	for _, tt := range []struct {
		name            string
		a, b            Span
		touches, within bool
	}{
		{"inside", of(4, 5), of(3, 7), true, true},
		{"the same", of(3, 7), of(3, 7), true, true},
		{"across an end", of(2, 3), of(3, 7), true, false},
		{"around", of(1, 9), of(3, 7), true, false},
		{"before", of(1, 2), of(3, 7), false, false},
		{"behind", of(8), of(3, 7), false, false},
		{"nothing", Span{}, of(3, 7), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.a.Touches(tt.b) != tt.touches || tt.b.Touches(tt.a) != tt.touches || tt.a.Within(tt.b) != tt.within {
				t.Errorf("touches %t, within %t", tt.a.Touches(tt.b), tt.a.Within(tt.b))
			}
		})
	}
}
