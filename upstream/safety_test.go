package upstream

import (
	"errors"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/contain"
)

// A panic while a response is taken is a reason to reject the response, and makes the store a suspect.
func TestSafety_SUR6(t *testing.T) {
	suspected := 0
	s := safety{contain.New(nil, nil), func() { suspected++ }}
	reason := s.apply(func() error { panic("a resource") })
	if e, ok := errors.AsType[*contain.Error](reason); !ok || e.Part != contain.Response || suspected != 1 {
		t.Errorf("reason %v, suspected %d times", reason, suspected)
	}
	if got := cached(reason); got != "what the response brought, save the part that was rejected: of that what was there before" {
		t.Errorf("cached is %q", got)
	}
	bad := errors.New("bad")
	if reason := s.apply(func() error { return bad }); !errors.Is(reason, bad) || suspected != 1 {
		t.Errorf("reason %v, suspected %d times", reason, suspected)
	}
}
