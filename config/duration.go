package config

import (
	"regexp"
	"strconv"
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
		return mismatchFor("a duration such as 30s, 5ms or 1h30m", text, meantDuration(string(text)))
	}
	if v < 0 {
		return mismatch("a duration that is not negative", text)
	}
	*d = Duration(v)
	return nil
}

// otherDuration matches what other programs take: no unit, days, and longer names.
var otherDuration = regexp.MustCompile(`^(\d{1,4}) *(|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)$`)

// meantDuration is the duration that a text most likely stands for, "" if there is none.
func meantDuration(text string) string {
	m := otherDuration.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return ""
	}
	if m[2] == "" {
		m[2] = "s"
	}
	if n, err := strconv.Atoi(m[1]); err == nil && m[2][0] == 'd' {
		return strconv.Itoa(24*n) + "h"
	}
	return m[1] + m[2][:1]
}
