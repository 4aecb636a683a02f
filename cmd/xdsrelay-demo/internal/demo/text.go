package demo

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// count gives a number with separators: 214,032.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rate gives a number per second.
func rate(perSecond float64) string { return count(int(math.Round(perSecond))) }

// plural gives a number of something.
func plural(n int, one string) string {
	switch {
	case n == 1:
	case one[len(one)-1] == 'y':
		one = one[:len(one)-1] + "ies"
	default:
		one += "s"
	}
	return count(n) + " " + one
}

// short gives a duration with two digits or three: 1.2 ms, 340 ms, 1.2 s.
func short(d time.Duration) string {
	switch ms := float64(d.Microseconds()) / 1000; {
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
}

// clock gives a time as minutes and seconds: 1:05.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
