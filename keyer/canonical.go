package keyer

import (
	"cmp"
	"slices"
	"strings"
)

// The character classes of RFC 3986 as bit sets of ASCII, for charset.
const (
	digits       = (1<<10 - 1) << '0'
	letters      = (1<<26-1)<<'A' | (1<<26-1)<<'a'
	alphanumeric = letters | digits
	unreserved   = alphanumeric | 1<<'-' | 1<<'.' | 1<<'_' | 1<<'~'
	subDelims    = 1<<'!' | 1<<'$' | 1<<'&' | 1<<'\'' | 1<<'(' | 1<<')' | 1<<'*' | 1<<'+' | 1<<',' | 1<<';' | 1<<'='
	pchar        = unreserved | subDelims | 1<<':' | 1<<'@'
	queryChars   = pchar | 1<<'/' | 1<<'?'
	// hostChars adds the brackets, which RFC 3986 has for IP literals only:
	// to us an authority is opaque.
	hostChars = pchar | 1<<'[' | 1<<']'
	// keyChars and valueChars leave out what ends a key or a value.
	keyChars   = queryChars &^ (1<<'=' | 1<<'&')
	valueChars = queryChars &^ (1 << '&')
	entryName  = unreserved | 1<<'/' | 1<<':'
	// directives leaves out what ends a directive.
	directives = queryChars &^ (1 << ',')

	lowHalf = 1<<64 - 1
)

// charset is a set of ASCII characters.
type charset [2]uint64

func (set charset) has(c byte) bool {
	return c < 128 && set[c>>6]&(1<<(c&63)) != 0
}

// What each component may hold as it is; everything else is percent-encoded in
// the canonical form. Functions, since an array cannot be a constant.
func authorityChars() charset    { return charset{hostChars & lowHalf, hostChars >> 64} }
func segmentChars() charset      { return charset{pchar & lowHalf, pchar >> 64} }
func pathChars() charset         { return charset{(pchar | 1<<'/') & lowHalf, (pchar | 1<<'/') >> 64} }
func contextKeyChars() charset   { return charset{keyChars & lowHalf, keyChars >> 64} }
func contextValueChars() charset { return charset{valueChars & lowHalf, valueChars >> 64} }
func entryChars() charset        { return charset{entryName & lowHalf, entryName >> 64} }
func directiveChars() charset    { return charset{directives & lowHalf, directives >> 64} }
func unreservedChars() charset   { return charset{unreserved & lowHalf, unreserved >> 64} }
func firstKeyChars() charset     { return charset{alphanumeric & lowHalf, alphanumeric >> 64} }

// reservedKeys begin context keys that only whoever resolves a URL may add
// (NAME-7).
const reservedKeys = "xds."

// onTheWire tells whether names on the wire may carry a reserved key: what
// clients add when they resolve a URL. Beside the proposal's xds.resource.* these
// are the parameters that Envoy makes of its node and of its features.
func onTheWire(key string) bool {
	return strings.HasPrefix(key, "xds.resource.") ||
		strings.HasPrefix(key, "xds.node.") ||
		strings.HasPrefix(key, "xds.client_feature.")
}

// component gives the canonical form of the part of name that begins at byte
// at: an encoded unreserved character is decoded, what may not stand there is
// encoded, and hexadecimal digits are upper case (NAME-1, NAME-3). An encoded
// reserved character stays: to RFC 3986 "%2F" and "/" are not the same. A part
// that is canonical already is returned as it is.
func component(name, part string, at int, allowed charset) (string, error) {
	for i := 0; i < len(part); i++ {
		if allowed.has(part[i]) {
			continue
		}
		if !canonicalEscape(part[i:]) {
			if bad := badEscape(part[i:]); bad >= 0 {
				return "", fail(name, at+i+bad, badEscapeReason)
			}
			return rewrite(part, i, allowed), nil
		}
		i += len("2F")
	}
	return part, nil
}

// canonicalEscape tells whether s begins with an escape that is canonical.
func canonicalEscape(s string) bool {
	c, ok := escaped(s)
	return ok && !unreservedChars().has(c) && s[1] < 'a' && s[2] < 'a'
}

// rewrite gives the canonical form of part, of which the first done bytes are
// canonical and the escapes well-formed.
func rewrite(part string, done int, allowed charset) string {
	var b strings.Builder
	b.Grow(len(part) + len("2F")*4)
	b.WriteString(part[:done])
	for i := done; i < len(part); i++ {
		c := part[i]
		if allowed.has(c) {
			b.WriteByte(c)
			continue
		}
		if e, ok := escaped(part[i:]); ok {
			c, i = e, i+len("2F")
			if unreservedChars().has(c) {
				b.WriteByte(c)
				continue
			}
		}
		writeEscape(&b, c)
	}
	return b.String()
}

// param is a context parameter in canonical form and where its key stands in
// the name.
type param struct {
	key, value string
	at         int
}

// canonicalContext gives the canonical form of the query, which begins at byte
// at of name: each parameter as "key=value", sorted by key (NAME-3). Keys that
// are reserved or occur twice are refused (NAME-7). A query that is canonical
// already is returned as it is.
func canonicalContext(name, query string, at int) (string, error) {
	if query == "" {
		return "", nil
	}
	var few [8]param // on the stack, enough for most names
	params := few[:0]
	canonical := true
	for text := range strings.SplitSeq(query, "&") {
		key, value, hasValue := strings.Cut(text, "=")
		p := param{at: at}
		var err error
		if p.key, err = component(name, key, at, contextKeyChars()); err != nil {
			return "", err
		}
		if p.value, err = component(name, value, at+len(key)+1, contextValueChars()); err != nil {
			return "", err
		}
		if err := checkKey(name, p.key, at); err != nil {
			return "", err
		}
		inOrder := len(params) == 0 || params[len(params)-1].key < p.key
		canonical = canonical && hasValue && inOrder && p.key == key && p.value == value
		params = append(params, p)
		at += len(text) + len("&")
	}
	if canonical {
		return query, nil
	}
	slices.SortStableFunc(params, func(a, b param) int { return cmp.Compare(a.key, b.key) })
	var b strings.Builder
	b.Grow(len(query) + len("="))
	for i, p := range params {
		if i > 0 {
			if params[i-1].key == p.key {
				return "", fail(name, p.at, "the context key %q occurs twice", Shorten(p.key))
			}
			b.WriteByte('&')
		}
		b.WriteString(p.key)
		b.WriteByte('=')
		b.WriteString(p.value)
	}
	return b.String(), nil
}

// checkKey refuses the context keys that a name on the wire must not carry
// (NAME-7). key is in canonical form, so that no encoding of it slips through.
func checkKey(name, key string, at int) error {
	switch {
	case key == "":
		return fail(name, at, "a context parameter without key")
	case !firstKeyChars().has(key[0]):
		return fail(name, at, "context key %q: a first character that is not a letter or digit is reserved", Shorten(key))
	case strings.HasPrefix(key, reservedKeys) && !onTheWire(key):
		return fail(name, at, "context key %q: keys beginning with %q are reserved", Shorten(key), reservedKeys)
	default:
		return nil
	}
}
