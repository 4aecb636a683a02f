package rules

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"google.golang.org/protobuf/proto"
)

// maxNesting bounds how deep a value of a scope goes: what the wire can carry would be
// read by nobody.
const maxNesting = 64

var (
	errNaN  = errors.New("not a number (NaN) equals nothing, not even itself")
	errDeep = fmt.Errorf("the value is nested deeper than %d levels", maxNesting)
)

// appendValue writes a value so that two have the same text exactly if CEL takes them for
// equal: text is quoted, so "1" is not 1; whole numbers are written alike whether they
// came as integers or, from metadata, as doubles; maps and messages are sorted. Numbers
// count as what they are, also beyond 2^53, where CEL rounds to compare. Nothing is left
// out: a message's unknown fields are part of it.
func appendValue(dst []byte, value ref.Val, depth int) ([]byte, error) {
	if depth > maxNesting {
		return dst, errDeep
	}
	switch v := value.(type) {
	case types.Null:
		return append(dst, "null"...), nil
	case types.Bool:
		return strconv.AppendBool(dst, bool(v)), nil
	case types.String:
		return strconv.AppendQuote(dst, string(v)), nil
	case types.Bytes:
		return strconv.AppendQuote(append(dst, 'b'), string(v)), nil
	case types.Int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case types.Double:
		return appendNumber(dst, float64(v))
	case types.Duration:
		return appendCall(dst, "duration", v.String()), nil
	case types.Timestamp:
		return appendCall(dst, "timestamp", v.UTC().Format(time.RFC3339Nano)), nil
	case *types.Optional:
		return appendOptional(dst, v, depth)
	case ref.Type:
		return appendCall(dst, "type", v.TypeName()), nil
	case traits.Mapper:
		return appendMap(dst, v, depth)
	case traits.Lister:
		return appendList(dst, v, depth)
	}
	return appendObject(dst, value, depth)
}

func appendCall(dst []byte, function, argument string) []byte {
	return append(strconv.AppendQuote(append(append(dst, function...), '('), argument), ')')
}

// appendNumber writes whole numbers as the integers that they equal.
func appendNumber(dst []byte, f float64) ([]byte, error) {
	const two63, two64 = 1 << 63, 1 << 64
	switch {
	case math.IsNaN(f):
		return dst, errNaN
	case f != math.Trunc(f) || f < -two63 || f >= two64:
		return strconv.AppendFloat(dst, f, 'g', -1, 64), nil
	case f < two63:
		return strconv.AppendInt(dst, int64(f), 10), nil
	}
	return strconv.AppendUint(dst, uint64(f), 10), nil
}

func appendOptional(dst []byte, v *types.Optional, depth int) ([]byte, error) {
	if !v.HasValue() {
		return append(dst, "optional.none()"...), nil
	}
	dst, err := appendValue(append(dst, "optional.of("...), v.GetValue(), depth+1)
	return append(dst, ')'), err
}

func appendList(dst []byte, list traits.Lister, depth int) ([]byte, error) {
	dst = append(dst, '[')
	var err error
	for i, it := 0, list.Iterator(); err == nil && it.HasNext() == types.True; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, err = appendValue(dst, it.Next(), depth+1)
	}
	return append(dst, ']'), err
}

func appendMap(dst []byte, m traits.Mapper, depth int) ([]byte, error) {
	var entries [][]byte
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		entry, err := appendValue(nil, key, depth+1)
		if err != nil {
			return dst, err
		}
		if entry, err = appendValue(append(entry, ':'), m.Get(key), depth+1); err != nil {
			return dst, err
		}
		entries = append(entries, entry)
	}
	return appendSorted(dst, entries), nil
}

func appendSorted(dst []byte, entries [][]byte) []byte {
	slices.SortFunc(entries, bytes.Compare)
	dst = append(dst, '{')
	dst = append(dst, bytes.Join(entries, []byte{','})...)
	return append(dst, '}')
}

func appendStrings(dst []byte, list []string) []byte {
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendQuote(dst, s)
	}
	return dst
}

// appendObject writes what has fields.
func appendObject(dst []byte, value ref.Val, depth int) ([]byte, error) {
	switch v := value.Value().(type) {
	case proto.Message:
		return appendMessage(dst, v.ProtoReflect(), depth)
	case *identity:
		return appendIdentity(dst, v), nil
	case *token:
		return appendToken(dst, v), nil
	}
	return dst, fmt.Errorf("%s cannot be part of a scope", article(value.Type().TypeName()))
}

func appendIdentity(dst []byte, p *identity) []byte {
	dst = appendStrings(append(append(dst, identityType...), '{'), []string{p.SPIFFE, p.Subject})
	for _, list := range [][]string{p.DNS, p.URIs, p.Emails, p.IPs} {
		dst = append(appendStrings(append(dst, ",["...), list), ']')
	}
	if p.UID != noUser {
		dst = fmt.Appendf(dst, ",user(%d,%d)", p.UID, p.GID)
	}
	if p.Token.Iss != "" || p.Token.Sub != "" {
		dst = appendToken(append(dst, ','), p.Token)
	}
	return append(dst, '}')
}

// appendToken leaves audiences and other claims out: they may change with the next token of the
// same client.
func appendToken(dst []byte, t *token) []byte {
	return append(appendStrings(append(dst, "token("...), []string{t.Iss, t.Sub}), ')')
}
