package keyer

import "strings"

// asterisk is the last segment of the name of a glob collection.
const asterisk = "*"

// literalAsterisk is the last segment of a name that is no glob, and is called "*".
const literalAsterisk = "%2A"

// GlobOf gives the key of the glob that a resource is a direct member of: same
// authority, type, directory and context parameters (GLOB-1, GLOB-3). key is a
// key as [Key] or [ResolvedKey] gives it; the result is "" for opaque names,
// which are in no glob, and for globs.
//
// The key of a member of a glob that has alternatives carries the glob's
// directives, see [MemberOf]; so does the result. A single resource that has
// directives of its own is in no glob: nobody lists it.
func GlobOf(key string) string {
	if !IsXDSTP(key) {
		return ""
	}
	dir, segment, rest := cutLast(key)
	if segment == asterisk || !memberFragment(rest) {
		return ""
	}
	return dir + asterisk + rest
}

// memberFragment tells whether rest, the query and fragment of a key, may be
// that of a member of a glob: it has no directives, or the alternative is a
// glob. What the alternative's own fragment begins with is "%23" there.
func memberFragment(rest string) bool {
	_, fragment, hasFragment := strings.Cut(rest, "#")
	if !hasFragment {
		return true
	}
	alt, isAlt := strings.CutPrefix(fragment, "alt=")
	if !isAlt {
		return false
	}
	if end := strings.IndexAny(alt, "?,"); end >= 0 {
		alt = alt[:end]
	}
	alt, _, _ = strings.Cut(alt, "%23")
	return strings.HasSuffix(alt, "/"+asterisk)
}

// IsGlob tells whether a key, with or without directives, is that of a glob
// collection.
func IsGlob(key string) bool {
	if !IsXDSTP(key) {
		return false
	}
	_, segment, _ := cutLast(key)
	return segment == asterisk
}

// MemberOf gives the key that a member has under a glob: the glob's key,
// directives included, with the member's last segment in place of the asterisk.
// glob is a key as [ResolvedKey] gives it. Only the last segment counts of
// member, the key of a resource of this collection or of an alternative one
// (LOC-5): so the members of "xdstp://a/T/d/*#alt=xdstp://b/T/e/*" have the
// keys "xdstp://a/T/d/x#alt=xdstp://b/T/e/*", from wherever they come. Such a
// key is no name to ask for. [GlobOf] leads back to the glob, and [Respell] to
// the name that a client is shown.
//
// The result is "" if glob is no key of a glob or member no key of a single
// xdstp resource. A member of a glob without directives that has that key
// already is returned without allocating.
func MemberOf(glob, member string) string {
	if !IsXDSTP(glob) || !IsXDSTP(member) {
		return ""
	}
	dir, last, rest := cutLast(glob)
	memberDir, segment, memberRest := cutLast(member)
	switch {
	case last != asterisk || segment == asterisk:
		return ""
	case dir == memberDir && rest == memberRest:
		return member
	default:
		return dir + segment + rest
	}
}

// Respell gives the name under which a client that subscribed to a glob asked
// for a member of it (NAME-4): the member's last segment in the client's own
// spelling of authority, type, directory and context parameters. glob is a name
// as the client wrote it, and member a key. Directives are left out, the glob's
// and those that a member's key carries, for a member is a URN. Only the
// member's last segment counts, so that a member of an alternative collection
// is served under the first one's name (LOC-5).
//
// A member that has that spelling already is returned without allocating; so is
// one that cannot be spelled that way, since glob is no xdstp glob or member is
// not the key of a single xdstp resource.
func Respell(glob, member string) string {
	if !IsXDSTP(glob) || !IsXDSTP(member) {
		return member
	}
	glob, _, _ = strings.Cut(glob, "#")
	urn, _, _ := strings.Cut(member, "#")
	dir, last, query := cutLast(glob)
	memberDir, segment, memberQuery := cutLast(urn)
	switch {
	case last != asterisk || segment == asterisk:
		return member
	case dir == memberDir && query == memberQuery:
		return urn
	default:
		return dir + segment + query
	}
}

// cutLast cuts an xdstp name around the last segment of its path: dir ends with
// a slash, rest begins with "?" or "#" unless it is empty.
func cutLast(name string) (dir, segment, rest string) {
	// A query and a fragment may hold slashes and question marks, a path no
	// literal "?" or "#". Two searches for one byte are faster than one for two.
	end := len(name)
	if i := strings.IndexByte(name, '#'); i >= 0 {
		end = i
	}
	if i := strings.IndexByte(name[:end], '?'); i >= 0 {
		end = i
	}
	i := strings.LastIndexByte(name[:end], '/') + 1
	return name[:i], name[i:end], name[end:]
}
