package config

import (
	"strconv"
	"strings"
)

// Percent is a part of a whole in percent, which reads and writes itself as text ("50%").
type Percent float64

// Part is the percentage as a number from 0 to 1.
func (p Percent) Part() float64 { return float64(p) / 100 }

// String gives the text that UnmarshalText reads back.
func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) + "%" }

// MarshalText gives String.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a number from 0 to 100 with a percent sign; only 0 needs none.
func (p *Percent) UnmarshalText(text []byte) error {
	const want = "a percentage such as 50%, or 0"
	number, percent := strings.CutSuffix(string(text), "%")
	if strings.Trim(number, "0123456789.") != "" {
		return mismatch(want, text)
	}
	v, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || v > 100:
		return mismatch(want, text)
	case !percent && v < 1 && number != "0":
		return mismatchFor(want, text, Percent(100*v).String())
	case !percent && number != "0":
		return mismatchFor(want, text, number+"%")
	}
	*p = Percent(v)
	return nil
}
