package filesource

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Snapshot is what the files say at one time. Immutable; it may be kept and
// shared by any number of goroutines.
type Snapshot struct {
	// Number is 0 as long as nothing was read, and rises with each change.
	Number uint64
	// States are by type URL. A type that no file ever mentioned is missing, which
	// says nothing about it; one whose files are gone stays, without resources.
	States map[string]*State
	// Incomplete tells that a file has never been valid: what is missing here may
	// be in there, so that clients who come with it must not be told that it is
	// gone (RES-2). It is true of the snapshot with the number 0.
	Incomplete bool
}

// State is the state of one type. The State of a type that did not change
// is the same pointer in the next snapshot.
type State struct {
	// VersionInfo is the version_info of the file that describes the type, or a
	// digest of its resources if it has none. Those of several files are joined by
	// commas in the order of the files' names, and hashed if that grows too long.
	VersionInfo string
	// Resources are in the order of the files and in each in its order, every
	// name once.
	Resources []*wire.Resource
	// Errors say why a resource is not available (ERR-1), in the same order.
	Errors []wire.ResourceError

	parts []*contents
}

// maxVersion bounds a joined version, which goes to every client.
const maxVersion = 128

// newSnapshot makes the snapshot after before, of what files hold, or gives
// before if it would say the same.
func newSnapshot(before *Snapshot, files []*file) *Snapshot {
	after := &Snapshot{Number: before.Number + 1, States: make(map[string]*State)}
	parts := make(map[string][]*contents)
	for typeURL := range before.States {
		parts[typeURL] = nil
	}
	for _, f := range files {
		if f.accepted == nil {
			after.Incomplete = true
			continue
		}
		parts[f.accepted.typeURL] = append(parts[f.accepted.typeURL], f.accepted)
	}
	changed := before.Number == 0 || before.Incomplete != after.Incomplete
	for typeURL, p := range parts {
		s, known := before.States[typeURL]
		if !known || !slices.Equal(s.parts, p) {
			s, changed = newState(p), true
		}
		after.States[typeURL] = s
	}
	if !changed {
		return before
	}
	return after
}

func newState(parts []*contents) *State {
	s := &State{parts: parts}
	versions := make([]string, len(parts))
	for i, p := range parts {
		versions[i] = p.version
		s.Resources = append(s.Resources, p.resources...)
		s.Errors = append(s.Errors, p.errors...)
	}
	s.VersionInfo = join(versions)
	return s
}

// join makes one version of those of several files. One alone stays as it is,
// however long (ACK-4).
func join(versions []string) string {
	joined := strings.Join(versions, ",")
	switch {
	case len(versions) == 0:
		return digest(nil)
	case len(versions) > 1 && len(joined) > maxVersion:
		sum := sha256.Sum256([]byte(joined))
		return hex.EncodeToString(sum[:16])
	default:
		return joined
	}
}
