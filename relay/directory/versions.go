package directory

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
)

// Versions remembers what a directory said of its inline entries, without their
// payloads: a version and a hash for each name. Entries without a name or a
// version are left out, for nothing is promised of them.
type Versions map[string]content

// content is a version and the first half of the payload's SHA-256.
type content struct {
	version string
	sum     [sha256.Size / 2]byte
}

// Versions gives what is to be remembered of the directory. Of a name that
// occurs twice the first entry counts, as in [Directory.Find]; the other is a
// fault already.
func (d *Directory) Versions() Versions {
	v := make(Versions)
	for i := range d.Entries {
		e := &d.Entries[i]
		if _, twice := v[e.Name]; twice || e.Name == "" || e.Version == "" {
			continue
		}
		sum := sha256.Sum256(e.Any)
		v[e.Name] = content{version: e.Version, sum: [sha256.Size / 2]byte(sum[:])}
	}
	return v
}

// ConflictError is one name and version with two payloads (LIST-4), which no cache
// could tell apart.
type ConflictError struct{ Name, Version string }

func (c ConflictError) Error() string {
	return fmt.Sprintf("inline entry %.256q has another payload than before at the same version %.256q", c.Name, c.Version)
}

// Conflicts lists the entries that have the version that they had in the
// directory before, and another payload, by name.
func (v Versions) Conflicts(before Versions) []ConflictError {
	var conflicts []ConflictError
	for _, name := range slices.Sorted(maps.Keys(v)) {
		now := v[name]
		if was, ok := before[name]; ok && was.version == now.version && was.sum != now.sum {
			conflicts = append(conflicts, ConflictError{Name: name, Version: now.version})
		}
	}
	return conflicts
}
