package keyer

import (
	"iter"
	"strings"
)

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
	var alt Name
	altAt, entryAt := 0, 0
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
			var err error
			if alt, err = parse(value, depth+1); err != nil {
				return inAlternative(name, valueAt, err)
			}
			n.alt, altAt = alt.Resolved(), valueAt
		case "entry":
			if n.entry != "" {
				return fail(name, at, "the directive entry= occurs twice")
			}
			if !isEntryName(value) {
				return fail(name, valueAt, "an entry is one or more of a-z, A-Z, 0-9 and _-./~:")
			}
			n.entry, entryAt = value, at
		default:
			return fail(name, at, "unknown directive %q: alt= and entry= are known", Shorten(directive))
		}
		at += len(directive) + len(",")
	}
	if err := n.checkEntry(name, entryAt); err != nil {
		return err
	}
	return n.checkAlternative(name, altAt, &alt)
}

// checkEntry refuses the directive entry, which begins at byte at of name, on
// what is no directory with inline entries (LIST-4).
func (n *Name) checkEntry(name string, at int) error {
	if n.entry == "" {
		return nil
	}
	if _, isList := MemberType(n.Type); !isList {
		return fail(name, at, "entry= is for list collections, whose type ends in %q: its type is %q", listSuffix, Shorten(n.Type))
	}
	if n.IsGlob() {
		return fail(name, at, "entry= is for one list collection, not for a glob")
	}
	return nil
}

// checkAlternative refuses an alternative, whose text begins at byte at of name,
// that cannot stand for the name (LOC-5): a client that asked for a collection
// could not make anything of a single resource, nor of one of another type.
func (n *Name) checkAlternative(name string, at int, alt *Name) error {
	switch {
	case n.alt == "":
		return nil
	case n.IsGlob() && !alt.IsGlob():
		return fail(name, at, "its alternative: the alternative of a glob must be a glob")
	case !n.IsGlob() && alt.IsGlob():
		return fail(name, at, "its alternative: a glob cannot stand for a single resource")
	case n.ResourceType() != alt.ResourceType():
		return fail(name, at, "its alternative: a %q cannot stand for a %q", Shorten(alt.ResourceType()), Shorten(n.ResourceType()))
	default:
		return nil
	}
}

// ResourceType gives the type of the resource that the name means, without the
// "type.googleapis.com/" of its URL. It is the type in the name, but for an
// entry of a list collection: that is a resource of the collection's member
// type (LIST-4).
func (n Name) ResourceType() string {
	if n.entry != "" {
		member, _ := MemberType(n.Type)
		return member
	}
	return n.Type
}

// MemberType gives the type of the members of a list collection, "T" for
// "TCollection" (LIST-1); false for what is no type of a list collection. It
// takes a type as a name holds it or a type URL, and gives the same.
func MemberType(typ string) (string, bool) {
	member, isList := strings.CutSuffix(typ, listSuffix)
	if !isList || member == "" || member[len(member)-1] == '.' || member[len(member)-1] == '/' {
		return "", false
	}
	return member, true
}

// Alternatives gives the places where the resource is to be had, in order of
// preference (LOC-5): the name itself without its alternative, then every
// alternative of the chain without its own. A directive entry stays with the
// name that it stands on: "#alt=…,entry=foo" means the inline entry foo of this
// directory, and where the directory's authority is unreachable, whatever
// single resource the alternative names. That is either one of the member type,
// or a directory with an entry= of its own.
func (n Name) Alternatives() iter.Seq[Name] {
	return func(yield func(Name) bool) {
		for {
			next := n.alt
			n.alt = ""
			if !yield(n) || next == "" {
				return
			}
			var err error
			if n, err = Parse(next); err != nil {
				return // cannot be: Parse has read it as part of n
			}
		}
	}
}

// Resolved gives the one spelling, directives included, that all spellings of
// the name share: the canonical form, "#alt=" with the alternative in its own
// resolved form, then "entry=". Without directives it is the canonical form.
// Parsing it gives it again. It is the key of a name that the relay resolves
// itself: names that differ in their alternatives are served apart (LOC-5).
func (n Name) Resolved() string {
	if n.alt == "" && n.entry == "" {
		return n.canonical
	}
	var b strings.Builder
	b.Grow(len(n.canonical) + len("#alt=,entry=") + len(n.alt) + len(n.entry) + len("2F")*4)
	b.WriteString(n.canonical)
	separator := byte('#')
	if n.alt != "" {
		b.WriteString("#alt=")
		escape(&b, n.alt, directiveChars())
		separator = ','
	}
	if n.entry != "" {
		b.WriteByte(separator)
		b.WriteString("entry=")
		b.WriteString(n.entry)
	}
	return b.String()
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
