package notify_test

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

func TestEarlier(t *testing.T) {
	never, soon, late := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct{ a, b, want time.Time }{
		{never, never, never},
		{never, soon, soon},
		{soon, never, soon},
		{soon, late, soon},
		{late, soon, soon},
	} {
		if got := notify.Earlier(c.a, c.b); !got.Equal(c.want) {
			t.Errorf("the earlier of %v and %v is %v", c.a, c.b, got)
		}
	}
}

func TestLater(t *testing.T) {
	never, soon, late := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct{ a, b, want time.Time }{
		{never, never, never},
		{never, soon, soon},
		{soon, never, soon},
		{soon, late, late},
		{late, soon, late},
	} {
		if got := notify.Later(c.a, c.b); !got.Equal(c.want) {
			t.Errorf("the later of %v and %v is %v", c.a, c.b, got)
		}
	}
}
