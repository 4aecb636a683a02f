package keyer

import "strings"

// Key gives the identity of a resource name inside its table, which two names
// share exactly if they mean the same resource (NAME-2, NAME-3). Opaque names
// are themselves, "*" included; xdstp names have their canonical form without
// directives (NAME-8), so that the key is also what to ask a server for.
//
// It allocates nothing for opaque names and for xdstp names in canonical form;
// the key then shares the name's memory. The error is a [*NameError].
func Key(name string) (string, error) {
	if !IsXDSTP(name) {
		return name, nil
	}
	n, err := Parse(name)
	if err != nil {
		return "", err
	}
	return n.canonical, nil
}

// ResolvedKey is [Key] for the table of names that the relay resolves itself:
// xdstp names have their resolved form, directives included (see
// [Name.Resolved]). The key of a glob's member, as [MemberOf] makes it, is
// itself, though it is no name to ask for. A name that is in that form already
// is returned as it is. The error is a [*NameError].
func ResolvedKey(name string) (string, error) {
	if !IsXDSTP(name) || isMemberKey(name) {
		return name, nil
	}
	n, err := Parse(name)
	if err != nil {
		return "", err
	}
	if resolved := n.Resolved(); resolved != name {
		return resolved, nil
	}
	return name, nil
}

// isMemberKey tells whether name is the key of a member of a glob that has
// directives.
func isMemberKey(name string) bool {
	urn, fragment, _ := strings.Cut(name, "#")
	if fragment == "" {
		return false
	}
	glob := GlobOf(name)
	if glob == "" {
		return false
	}
	n, err := Parse(glob)
	if err != nil || n.Resolved() != glob {
		return false
	}
	key, err := Key(urn)
	return err == nil && key == urn
}

// TypeOf gives the resource type in a key, without the "type.googleapis.com/" of its
// URL; "" for the key of an opaque name, which does not tell (NAME-5).
func TypeOf(key string) string {
	if !IsXDSTP(key) {
		return ""
	}
	_, path, _ := strings.Cut(key[len(prefix):], "/")
	typ, _, _ := strings.Cut(path, "/")
	return typ
}
