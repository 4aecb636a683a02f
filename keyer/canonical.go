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
	// separators keep their encoding wherever they may stand bare: encoded they are
	// data, and bare they separate, or could (NAME-3). "%" and "#" never stand bare.
	separators = 1<<'/' | 1<<'?'
	// valueSeparators are those of context values.
	valueSeparators = separators | 1<<'='

	lowHalf = 1<<64 - 1
)

// charset is a set of ASCII characters. It is no array: to index one, each look at a character would copy it
// to the stack.
type charset struct{ low, high uint64 }

func (set charset) has(c byte) bool {
	half := set.low
	if c >= 64 {
		half = set.high
	}
	return c < 128 && half&(1<<(c&63)) != 0
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
func plainKeyChars() charset     { return charset{alphanumeric & lowHalf, alphanumeric >> 64} }

// place is a component of a name: which characters it may hold as they are, and which
// of these an encoding stands for. Those two differ in what keeps its encoding.
type place struct{ bare, decoded charset }

func placeOf(bare charset, kept charset) place {
	return place{bare, charset{bare.low &^ kept.low, bare.high &^ kept.high}}
}

func keptChars() charset      { return charset{separators & lowHalf, separators >> 64} }
func keptValueChars() charset { return charset{valueSeparators & lowHalf, valueSeparators >> 64} }

func inAuthority() place    { return placeOf(authorityChars(), keptChars()) }
func inSegment() place      { return placeOf(segmentChars(), keptChars()) }
func inPath() place         { return placeOf(pathChars(), keptChars()) }
func inContextKey() place   { return placeOf(contextKeyChars(), keptChars()) }
func inContextValue() place { return placeOf(contextValueChars(), keptValueChars()) }

// component gives the canonical form of the part of name that begins at byte
// at: what may stand there is decoded, what may not is encoded, and hexadecimal digits
// are upper case (NAME-1, NAME-3). Envoy writes names like that, too. An encoded
// separator stays: to RFC 3986 "%2F" and "/" are not the same. A part that is canonical
// already is returned as it is.
func component(name, part string, at int, in place) (string, error) {
	for i := 0; i < len(part); i++ {
		if in.bare.has(part[i]) {
			continue
		}
		if !in.canonicalEscape(part[i:]) {
			if bad := badEscape(part[i:]); bad >= 0 {
				return "", fail(name, at+i+bad, badEscapeReason)
			}
			return in.rewrite(part, i), nil
		}
		i += len("2F")
	}
	return part, nil
}

// canonicalID is component for the id. A last segment "%2A" stays encoded: bare it would
// make a glob of a resource that is called "*" (GLOB-1).
func canonicalID(name, id string, at int) (string, error) {
	last := strings.LastIndexByte(id, '/') + 1
	if !strings.EqualFold(id[last:], literalAsterisk) {
		return component(name, id, at, inPath())
	}
	dir, err := component(name, id[:last], at, inPath())
	if err != nil {
		return "", err
	}
	if dir == id[:last] && id[last:] == literalAsterisk {
		return id, nil
	}
	return dir + literalAsterisk, nil
}

// canonicalEscape tells whether s begins with an escape that is canonical.
func (in place) canonicalEscape(s string) bool {
	c, ok := escaped(s)
	return ok && !in.decoded.has(c) && s[1] < 'a' && s[2] < 'a'
}

// rewrite gives the canonical form of part, of which the first done bytes are
// canonical and the escapes well-formed.
func (in place) rewrite(part string, done int) string {
	var b strings.Builder
	b.Grow(len(part) + len("2F")*4)
	b.WriteString(part[:done])
	for i := done; i < len(part); i++ {
		c := part[i]
		if in.bare.has(c) {
			b.WriteByte(c)
			continue
		}
		if e, ok := escaped(part[i:]); ok {
			c, i = e, i+len("2F")
			if in.decoded.has(c) {
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
// occur twice are refused. A query that is canonical
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
		if p.key, err = component(name, key, at, inContextKey()); err != nil {
			return "", err
		}
		if p.value, err = component(name, value, at+len(key)+1, inContextValue()); err != nil {
			return "", err
		}
		if p.key == "" {
			return "", fail(name, at, "a context parameter without key")
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
