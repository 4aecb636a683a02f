package streams

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errDraining = errors.New("draining")

// stream is one that keeps with which statuses it was ended.
type stream struct {
	ctx   context.Context
	ended []error
}

func (st *stream) Context() context.Context { return st.ctx }
func (st *stream) End(status error)         { st.ended = append(st.ended, status) }

// A server that drains takes no new stream, and ends those that it has in time, whatever was to be done to them and is
// asked for then. What ended before is left alone.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Set[*stream]{Draining: errDraining}
		present, gone, late := &stream{}, &stream{}, &stream{}
		for _, st := range []*stream{present, gone} {
			if err := s.Add(st); err != nil {
				t.Fatal(err)
			}
			s.Later(time.Hour, st, func() { st.End(errors.New("replaced")) })
		}
		s.Remove(gone)
		s.Drain(time.Second)
		s.Later(time.Hour, present, nil)
		if err := s.Add(late); !errors.Is(err, errDraining) {
			t.Errorf("a late stream got %v", err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if len(present.ended) != 1 || !errors.Is(present.ended[0], errDraining) || len(gone.ended)+len(late.ended) != 0 {
			t.Errorf("ended with %v; of those that are not there %v, %v", present.ended, gone.ended, late.ended)
		}
	})
}

// What is to be done to a stream replaces what was to be done before, and nil calls it off.
func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set[*stream]
		replaced, off := &stream{}, &stream{}
		first, second := errors.New("first"), errors.New("second")
		for _, st := range []*stream{replaced, off} {
			if err := s.Add(st); err != nil {
				t.Fatal(err)
			}
			s.Later(time.Second, st, func() { st.End(first) })
		}
		s.Later(time.Second, replaced, func() { replaced.End(second) })
		s.Later(time.Second, off, nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(replaced.ended) != 1 || !errors.Is(replaced.ended[0], second) || len(off.ended) != 0 {
			t.Errorf("ended with %v and %v", replaced.ended, off.ended)
		}
	})
}

// End ends the streams that it is given a reason for, and no others.
func TestEnd(t *testing.T) {
	type key struct{}
	var s Set[*stream]
	kept, ended := &stream{ctx: t.Context()}, &stream{ctx: context.WithValue(t.Context(), key{}, true)}
	for _, st := range []*stream{kept, ended} {
		if err := s.Add(st); err != nil {
			t.Fatal(err)
		}
	}
	revoked := errors.New("revoked")
	s.End(func(ctx context.Context) error {
		if ctx.Value(key{}) != nil {
			return revoked
		}
		return nil
	})
	if len(kept.ended) != 0 || len(ended.ended) != 1 || !errors.Is(ended.ended[0], revoked) || len(s.All()) != 2 {
		t.Errorf("ended with %v and %v, %d streams", kept.ended, ended.ended, len(s.All()))
	}
}
