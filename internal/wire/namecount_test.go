package wire

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// A request may have 65,536 names, and one more for each 8 bytes. It is refused at the first that is too many, so that
// what it takes until then is in proportion to its bytes, which are few.
func TestLIM3_hostileNames(t *testing.T) {
	const size = 2 << 20
	state, delta := func() request { return new(StateRequest) }, func() request { return new(DeltaRequest) }
	for name, c := range map[string]struct {
		form   func() request
		encode string
		most   int // of these in a request
		factor int // of its bytes that a large one may have allocated
	}{
		"names":                 {state, "\x1a\x01a", 104_857, 20},
		"locators":              {state, "\x3a\x00", 87_381, 24},
		"parameters":            {state, "\x3a\x02\x12\x00", 43_690, 48},
		"subscribed names":      {delta, "\x1a\x00", 87_381, 20},
		"unsubscribed names":    {delta, "\x22\x00", 87_381, 20},
		"both":                  {delta, "\x1a\x00\x22\x00", 43_690, 20},
		"subscribed locators":   {delta, "\x42\x00", 87_381, 24},
		"unsubscribed locators": {delta, "\x4a\x00", 87_381, 24},
		"delta's parameters":    {delta, "\x42\x02\x12\x00", 43_690, 48},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.form().Decode([]byte(strings.Repeat(c.encode, c.most))); err != nil {
				t.Errorf("as many as there may be: %v", err)
			}
			var crammed *NamesError
			if err := c.form().Decode([]byte(strings.Repeat(c.encode, c.most+1))); !errors.As(err, &crammed) {
				t.Errorf("one more: %v", err)
			}
			in := []byte(strings.Repeat(c.encode, size/len(c.encode)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := c.form().Decode(in)
			runtime.ReadMemStats(&after)
			took := int(after.TotalAlloc - before.TotalAlloc)
			t.Logf("%d KiB have %d KiB allocated", len(in)>>10, took>>10)
			if !errors.As(err, &crammed) || took > c.factor*len(in) {
				t.Errorf("a request of %d bytes has %d allocated, and %v", len(in), took, err)
			}
		})
	}
}
