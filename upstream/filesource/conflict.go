package filesource

// resourceKey is what no two files may have in common.
type resourceKey struct{ typeURL, name string }

// accept decides what of each file counts: its candidate, unless that names a
// resource of another file. Then the file keeps what counted before, whose names
// nobody else had. What counted already wins over what is new, and among new
// ones the file whose name comes first, which is the order of files.
func accept(files []*file) {
	chosen := make(map[*file]*contents, len(files))
	for _, f := range files {
		chosen[f] = f.candidate
		f.conflict = nil
	}
	// What a refused file keeps may contradict new contents of another that were
	// let pass before, if a resource moved from the one to the other: look again
	// until nothing is refused. Every round settles a file for good.
	for refuse(files, chosen) {
	}
	for _, f := range files {
		f.accepted = chosen[f]
	}
}

// refuse takes back new contents that contradict others, and tells whether there
// were any.
func refuse(files []*file, chosen map[*file]*contents) (refused bool) {
	owners := make(map[resourceKey]*file)
	for _, isNew := range []bool{false, true} {
		for _, f := range files {
			c := chosen[f]
			if c == nil || isNew != (c != f.accepted) {
				continue
			}
			if bad := claim(owners, f, c); bad != nil {
				f.conflict, chosen[f], refused = bad, f.accepted, true
			}
		}
	}
	return refused
}

// claim notes that f owns the names in c, unless one belongs to another file.
func claim(owners map[resourceKey]*file, f *file, c *contents) *Error {
	for _, r := range c.resources {
		if owner, taken := owners[resourceKey{c.typeURL, r.Name}]; taken {
			bad := errorf("the name %s is in %s already", shown(r.Name), owner.name)
			bad.File = f.name
			return bad
		}
	}
	for _, r := range c.resources {
		owners[resourceKey{c.typeURL, r.Name}] = f
	}
	return nil
}
