package keyer

import "strings"

// asterisk is the last segment of the name of a glob collection.
const asterisk = "*"

// GlobOf gives the key of the glob that a resource is a direct member of: same
// authority, type, directory and context parameters (GLOB-1, GLOB-3). key is a
// key as [Key] gives it; the result is "" for opaque names, which are in no
// glob, and for globs.
func GlobOf(key string) string {
	if !IsXDSTP(key) {
		return ""
	}
	dir, segment, query := cutLast(key)
	if segment == asterisk {
		return ""
	}
	return dir + asterisk + query
}

// IsGlob tells whether a key is that of a glob collection.
func IsGlob(key string) bool {
	if !IsXDSTP(key) {
		return false
	}
	_, segment, _ := cutLast(key)
	return segment == asterisk
}

// Respell gives the name under which a client that subscribed to a glob asked
// for a member of it (NAME-4): the member's last segment in the client's own
// spelling of authority, type, directory and context parameters. glob is a name
// as the client wrote it, and member a key. The glob's directives are left out,
// for a member is a URN. Only the member's last segment counts, so that a
// member of an alternative collection is served under the first one's name
// (LOC-5).
//
// A member that has that spelling already is returned without allocating; so is
// one that cannot be spelled that way, since glob is no xdstp glob or member is
// not the key of a single xdstp resource.
func Respell(glob, member string) string {
	if !IsXDSTP(glob) || !IsXDSTP(member) {
		return member
	}
	glob, _, _ = strings.Cut(glob, "#")
	dir, last, query := cutLast(glob)
	memberDir, segment, memberQuery := cutLast(member)
	if last != asterisk || segment == asterisk || dir == memberDir && query == memberQuery {
		return member
	}
	return dir + segment + query
}

// cutLast cuts an xdstp name without fragment around the last segment of its
// path: dir ends with a slash, query begins with "?" unless it is empty.
func cutLast(name string) (dir, segment, query string) {
	path := name
	// A query may hold slashes, a path no literal "?".
	if i := strings.IndexByte(name, '?'); i >= 0 {
		path, query = name[:i], name[i:]
	}
	i := strings.LastIndexByte(path, '/') + 1
	return path[:i], path[i:], query
}
