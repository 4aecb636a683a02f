package keyer

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

// CanonicalAuthority gives the form in which [Name.Authority] holds an
// authority that is written elsewhere, as in a configuration's list of them
// (LOC-3). The error is a [*NameError] that names the authority.
func CanonicalAuthority(authority string) (string, error) {
	for i := range len(authority) {
		switch authority[i] {
		case '/', '?', '#':
			return "", fail(authority, i, "%q ends an authority and must be percent-encoded in it", authority[i:i+1])
		}
	}
	return component(authority, authority, 0, authorityChars())
}
