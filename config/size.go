package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes that reads and writes itself as text ("512MiB").
type Size int64

// The binary units of sizes.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

// sizeUnits lists the units, longest name first so that "B" does not match the
// end of "KiB". Units with an "i" are powers of 1024, those without of 1000.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"TiB", TiB},
		{"GiB", GiB},
		{"MiB", MiB},
		{"KiB", KiB},
		{"TB", 1e12},
		{"GB", 1e9},
		{"MB", 1e6},
		{"KB", 1e3},
		{"B", 1},
	}
}

type sizeUnit struct {
	name  string
	bytes Size
}

// String gives the text in the largest binary unit that needs no fraction:
// "4032KiB". UnmarshalText reads it back exactly.
func (s Size) String() string {
	for _, u := range sizeUnits()[:4] {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText gives String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a decimal number with one of the units B, KiB, MiB, GiB,
// TiB (powers of 1024), KB, MB, GB, TB (powers of 1000), directly behind it. A
// number without unit counts bytes. A fraction of a unit is rounded down to
// whole bytes.
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := string(text), Size(1)
	for _, u := range sizeUnits() {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = n, u.bytes
			break
		}
	}
	v, err := parseSize(number, unit)
	if errors.Is(err, strconv.ErrRange) {
		return mismatch("a size below 8388608TiB", text)
	}
	if err != nil {
		return mismatchFor("a size such as 64KiB, 512MiB or 2GiB", text, meantSize(string(text)))
	}
	*s = v
	return nil
}

// meantSize is the size that a text most likely stands for, with spaces, another case, or without
// the letter for bytes; "" if there is none.
func meantSize(text string) string {
	number := strings.TrimRight(text, " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := strings.TrimSpace(text[len(number):])
	for _, u := range sizeUnits() {
		if !strings.EqualFold(unit, u.name) && !strings.EqualFold(unit+"B", u.name) {
			continue
		}
		if _, err := parseSize(number, u.bytes); err == nil {
			return number + u.name
		}
	}
	return ""
}

// parseSize multiplies a decimal number with unit. The error is
// strconv.ErrRange or strconv.ErrSyntax.
func parseSize(number string, unit Size) (Size, error) {
	whole, fraction, dotted := strings.Cut(number, ".")
	switch {
	// Only digits: strconv would take signs, exponents and "Inf" too.
	case whole == "" || strings.Trim(whole+fraction, "0123456789") != "":
		return 0, strconv.ErrSyntax
	// Nothing is half a byte.
	case dotted && (fraction == "" || unit == 1):
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, strconv.ErrRange
	}
	v := Size(n) * unit
	if dotted {
		f, err := strconv.ParseFloat("0."+fraction, 64)
		if err != nil {
			return 0, strconv.ErrSyntax
		}
		part := Size(f * float64(unit)) // at most unit, so at most 1 TiB
		if part > math.MaxInt64-v {
			return 0, strconv.ErrRange
		}
		v += part
	}
	return v, nil
}
