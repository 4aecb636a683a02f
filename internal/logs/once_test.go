package logs

import "testing"

// The log has a line for each thing once, and for so many things (LIM-4).
func TestOnce_LIM4(t *testing.T) {
	o := Once[string]{Most: 2}
	for _, tt := range []struct {
		what string
		want bool
	}{{"a", true}, {"a", false}, {"b", true}, {"c", false}, {"a", false}} {
		if got := o.First(tt.what); got != tt.want {
			t.Errorf("%s is new: %t", tt.what, got)
		}
	}
	if o.Forget(); !o.First("c") || !o.First("a") || o.First("b") {
		t.Error("what was forgotten is not new, or there is room for more")
	}
}
