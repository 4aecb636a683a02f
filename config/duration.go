package config

import (
	"strings"
	"time"
)

// Duration is a time.Duration that reads and writes itself as text ("1m30s")
// and is never negative.
type Duration time.Duration

// Std gives the same time as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String gives the shortest text that UnmarshalText reads back: "10m", not "10m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText gives String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads numbers with the units ns, us, ms, s, m and h; only 0
// needs none.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return mismatch("a duration such as 30s, 5ms or 1h30m", text)
	}
	if v < 0 {
		return mismatch("a duration that is not negative", text)
	}
	*d = Duration(v)
	return nil
}
