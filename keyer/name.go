package keyer

import (
	"iter"
	"strings"
)

const (
	prefix = "xdstp://"

	// maxAlternatives bounds how many alternatives may be chained in one
	// name, each in the fragment of the one before (NAME-6). TP1 sets no
	// bound; this one keeps the cost of a hostile name linear in its length.
	maxAlternatives = 8
)

// Name is a parsed xdstp name, in TP1's words a URL; without glob and
// directives it is a URN (NAME-2). The exported fields hold the canonical text
// of the components, percent-encoding included, and are for reading only. Names
// compare with ==, which takes the directives into account; whether two names
// mean the same resource is told by their canonical forms.
type Name struct {
	// Authority names who serves the resource; it may be empty. Case counts.
	Authority string
	// Type is the resource type without the "type.googleapis.com/" of its URL.
	Type string
	// ID is the rest of the path, opaque: "." and ".." and empty segments are
	// segments like any other (NAME-1).
	ID string

	query     string
	canonical string
	alt       string
	entry     string
}

// IsXDSTP tells whether name is one that [Parse] is for: it begins with "xdstp://". As
// RFC 3986 has it, the scheme may be in any case. Such a name that is otherwise broken is
// still one, so that it is refused with a reason and not taken for an opaque name. Without
// the slashes it is an opaque name: the proposal has no other form.
func IsXDSTP[S string | []byte](name S) bool {
	return len(name) >= len(prefix) && strings.EqualFold(string(name[:len(prefix)]), prefix)
}

// Parse takes an xdstp name apart (NAME-1, NAME-6):
//
//	xdstp://[authority]/type/id/*?context#directives
//
// Characters that a URI cannot hold are accepted and percent-encoded in the
// canonical form. Any context key is taken: reserved ones are what proxies and control
// planes add (NAME-7), see [CheckConfigured]. A name that is already canonical, but for directives, is
// parsed without allocating, and the result shares its memory. The error is
// always a [*NameError].
func Parse(name string) (Name, error) {
	return parse(name, 0)
}

// parse carries out Parse for a name that is the alternative of depth others.
func parse(name string, depth int) (Name, error) {
	if !IsXDSTP(name) {
		return Name{}, fail(name, 0, "an xdstp name begins with %q", prefix)
	}
	head, fragment, _ := strings.Cut(name, "#")
	hier, query, hasQuery := strings.Cut(head, "?")
	authority, path, _ := strings.Cut(hier[len(prefix):], "/")
	typ, id, _ := strings.Cut(path, "/")

	n := Name{}
	typeAt := min(len(prefix)+len(authority)+1, len(hier))
	idAt := min(typeAt+len(typ)+1, len(hier))
	var err error
	if n.Authority, err = component(name, authority, len(prefix), inAuthority()); err != nil {
		return Name{}, err
	}
	if typ == "" {
		return Name{}, fail(name, typeAt, "the resource type is missing")
	}
	if n.Type, err = component(name, typ, typeAt, inSegment()); err != nil {
		return Name{}, err
	}
	if id == "" {
		return Name{}, fail(name, idAt, "the id is missing")
	}
	if n.ID, err = canonicalID(name, id, idAt); err != nil {
		return Name{}, err
	}
	if n.query, err = canonicalContext(name, query, len(hier)+1); err != nil {
		return Name{}, err
	}
	if err := n.parseDirectives(name, fragment, len(head)+1, depth); err != nil {
		return Name{}, err
	}

	// A bare "?" means the same as none, and is not canonical.
	if strings.HasPrefix(head, prefix) && hasQuery == (n.query != "") &&
		n.Authority == authority && n.Type == typ && n.ID == id && n.query == query {
		n.canonical = head
	} else {
		n.canonical = n.compose()
	}
	return n, nil
}

// compose builds the canonical form from the canonical components.
func (n *Name) compose() string {
	if n.query == "" {
		return prefix + n.Authority + "/" + n.Type + "/" + n.ID
	}
	return prefix + n.Authority + "/" + n.Type + "/" + n.ID + "?" + n.query
}

// Canonical gives the one spelling that all spellings of the name share
// (NAME-3), without directives (NAME-8). Parsing it gives it again.
func (n Name) Canonical() string { return n.canonical }

// IsGlob tells whether the name is a glob collection (GLOB-1): its last segment
// is "*" and nothing else. An encoded asterisk, "%2A", is a literal one.
func (n Name) IsGlob() bool {
	return n.ID == asterisk || strings.HasSuffix(n.ID, "/"+asterisk)
}

// IsURN tells whether the name by itself identifies one resource: no glob, no
// directives (NAME-2).
func (n Name) IsURN() bool {
	return !n.IsGlob() && n.alt == "" && n.entry == ""
}

// Context gives the context parameters in canonical order, keys and values
// decoded. No key occurs twice in the canonical form; keys that differ in
// whether a reserved character is encoded stay apart there and look equal here.
func (n Name) Context() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if n.query == "" {
			return
		}
		for param := range strings.SplitSeq(n.query, "&") {
			key, value, _ := strings.Cut(param, "=")
			if !yield(unescape(key), unescape(value)) {
				return
			}
		}
	}
}

// Alt gives the URI of the directive alt in its resolved form, "" without one:
// where else the resource is to be had when the authority is unreachable
// (LOC-5). Parse accepts it; it may hold directives of its own.
func (n Name) Alt() string { return n.alt }

// Entry gives the value of the directive entry, "" without one: the name of an
// inline entry of a list collection (LIST-4). The name is then no glob, and its
// type that of a list collection.
func (n Name) Entry() string { return n.entry }

// CheckType carries out NAME-5: the type in the name must be the type that the
// request is for, or its list collection. A request for "T" takes names of the
// types "T" and "TCollection", a request for "TCollection" those of
// "TCollection". A name with entry= is one of a T, so only a request for "T"
// takes it (LIST-4). typeURL is the request's, "type.googleapis.com/T". The
// error is a [*NameError] that says what was expected.
func CheckType(n Name, typeURL string) error {
	want := typeURL[strings.LastIndexByte(typeURL, '/')+1:]
	if n.entry != "" && n.ResourceType() != want {
		return fail(n.Resolved(), -1, "its entry is a %q, the request is for %q", Shorten(n.ResourceType()), Shorten(typeURL))
	}
	if n.Type == want {
		return nil
	}
	if member, isList := MemberType(n.Type); isList && member == want {
		return nil
	}
	if strings.HasSuffix(want, listSuffix) {
		return fail(n.canonical, -1, "its type is %q, the request is for %q: expected %q", Shorten(n.Type), Shorten(typeURL), Shorten(want))
	}
	return fail(n.canonical, -1, "its type is %q, the request is for %q: expected %q or %q",
		Shorten(n.Type), Shorten(typeURL), Shorten(want), Shorten(want+listSuffix))
}

// listSuffix makes the type of a list collection from that of its members
// (LIST-1).
const listSuffix = "Collection"
