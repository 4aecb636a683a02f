package upstream

import (
	"errors"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// brokenStore panics over what it is to take.
type brokenStore struct{ Store }

func (brokenStore) Apply(wire.StreamID, *wire.Response, time.Time) error { panic("a resource") }

// A panic while a response is taken is a reason to reject the response, and makes the store a suspect.
func TestSafety_SUR6(t *testing.T) {
	suspected := 0
	s := safety{logs.NewPanics(nil, nil), func() { suspected++ }}
	reason := s.apply(brokenStore{}, wire.StreamID{}, &wire.Response{}, time.Now())
	if e, ok := errors.AsType[*logs.PanicError](reason); !ok || e.Part != logs.PartResponse || suspected != 1 {
		t.Errorf("reason %v, suspected %d times", reason, suspected)
	}
	if got := cached(reason); got != "the response without the rejected part: of that the resources from before" {
		t.Errorf("cached is %q", got)
	}
	bad := errors.New("bad")
	if reason := s.apply(&memStore{refuse: bad}, wire.StreamID{}, &wire.Response{}, time.Now()); !errors.Is(reason, bad) || suspected != 1 {
		t.Errorf("reason %v, suspected %d times", reason, suspected)
	}
}
