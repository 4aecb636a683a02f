package keyer

import "strings"

// parseDirectives reads the fragment, which begins at byte at of name (NAME-6).
//
// The value of a directive is data inside the fragment: it is percent-decoded
// once and only then read. So an alternative whose query holds a comma writes
// it "%2C", one that has directives of its own writes their "#" as "%23", and
// a "%" that belongs to the alternative is written "%25": in
// "#alt=xdstp://b/T/x?k=v,entry=foo" the comma ends the alternative. This is
// how Envoy encodes locators, too.
func (n *Name) parseDirectives(name, fragment string, at, depth int) error {
	if fragment == "" {
		return nil
	}
	if i := strings.IndexByte(fragment, '#'); i >= 0 {
		return fail(name, at+i, `a "#" inside the directives must be written "%%23"`)
	}
	for directive := range strings.SplitSeq(fragment, ",") {
		key, raw, _ := strings.Cut(directive, "=")
		valueAt := min(at+len(key)+1, at+len(directive))
		if i := badEscape(raw); i >= 0 {
			return fail(name, valueAt+i, badEscapeReason)
		}
		value := unescape(raw)
		switch key {
		case "alt":
			if n.alt != "" {
				return fail(name, at, "the directive alt= occurs twice")
			}
			if depth == maxAlternatives {
				return fail(name, at, "more than %d alternatives in a chain", maxAlternatives)
			}
			if _, err := parse(value, depth+1); err != nil {
				return inAlternative(name, valueAt, err)
			}
			n.alt = value
		case "entry":
			if n.entry != "" {
				return fail(name, at, "the directive entry= occurs twice")
			}
			if !isEntryName(value) {
				return fail(name, valueAt, "an entry is one or more of a-z, A-Z, 0-9 and _-./~:")
			}
			n.entry = value
		default:
			return fail(name, at, "unknown directive %q: alt= and entry= are known", shorten(directive))
		}
		at += len(directive) + len(",")
	}
	return nil
}

// isEntryName tells whether s may name an inline entry. TP1 and the pattern in
// the API differ in "/", ":" and "~"; whatever either allows is accepted.
func isEntryName(s string) bool {
	for i := range len(s) {
		if !entryChars().has(s[i]) {
			return false
		}
	}
	return s != ""
}
