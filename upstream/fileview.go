package upstream

import (
	"fmt"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/upstream/filesource"
)

// fileView has the resources of the files, as sessions look them up. Immutable.
type fileView struct {
	read bool // something was read; else nothing is known (RES-2)
	// complete: a resource that is not here does not exist. Else a file has never been valid, and
	// may hold it.
	complete bool
	types    map[string]*fileType // a type that is missing here has no resources if complete
}

// fileType is one type, shared by all sessions. The same pointer in the next view means
// that nothing changed. Immutable.
type fileType struct {
	state     *filesource.State
	resources []*wire.Resource               // those of "*": all whose names are not xdstp
	byKey     map[string]*wire.Resource      // by canonical name
	aliases   map[string]*wire.Resource      // by canonical alias (RES-10)
	members   map[string][]*wire.Resource    // by the canonical glob to which they belong
	errors    map[string]*wire.ResourceError // by canonical name, glob or "*" (ERR-1)
}

// noResources stands for a type of which the files hold nothing.
var noResources = &fileType{state: &filesource.State{}}

// typeOf never gives nil.
func (v *fileView) typeOf(typeURL string) *fileType {
	if t := v.types[typeURL]; t != nil {
		return t
	}
	return noResources
}

// newFileView makes the view of a snapshot. A type that cannot be served as it is now
// stays as it was before, and its error is returned with it.
func newFileView(before *fileView, snap *filesource.Snapshot) (*fileView, map[string]error) {
	v := &fileView{read: snap.Number > 0, complete: !snap.Incomplete, types: make(map[string]*fileType, len(snap.States))}
	bad := make(map[string]error)
	for typeURL, state := range snap.States {
		was := before.types[typeURL]
		if was != nil && was.state == state {
			v.types[typeURL] = was
			continue
		}
		t, err := newFileType(state)
		switch {
		case err == nil:
			v.types[typeURL] = t
		case was != nil:
			bad[typeURL], v.types[typeURL] = err, was
		default:
			bad[typeURL], v.complete = err, false
		}
	}
	return v, bad
}

// newFileType sorts a type's resources by the names under which they can be asked for. The error
// names a resource with a malformed name, or two that mean the same (ACK-6).
func newFileType(state *filesource.State) (*fileType, error) {
	t := &fileType{
		state: state, byKey: make(map[string]*wire.Resource, len(state.Resources)),
		aliases: make(map[string]*wire.Resource), members: make(map[string][]*wire.Resource),
	}
	for _, r := range state.Resources {
		key, err := keyer.Key(r.Name)
		if err != nil {
			return nil, err
		}
		if twin := t.byKey[key]; twin != nil {
			return nil, fmt.Errorf("the names %q and %q mean the same", twin.Name, r.Name)
		}
		t.byKey[key] = r
		if !keyer.IsXDSTP(r.Name) {
			t.resources = append(t.resources, r)
		} else if glob := keyer.GlobOf(key); glob != "" {
			t.members[glob] = append(t.members[glob], r)
		}
		for _, alias := range r.Aliases() {
			if key, err := keyer.Key(alias); err == nil { // else nobody can ask for it
				t.aliases[key] = r
			}
		}
	}
	for i := range state.Errors {
		e, key := &state.Errors[i], wildcard
		if e.Name != "" {
			var err error
			if key, err = keyer.Key(e.Name); err != nil {
				return nil, err
			}
		}
		if t.errors == nil {
			t.errors = make(map[string]*wire.ResourceError)
		}
		t.errors[key] = e
	}
	return t, nil
}

// gone reports whether the files say of a canonical name that there is nothing under it.
func (t *fileType) gone(key string) bool {
	e := t.errors[key]
	return e != nil && !e.Transient()
}

// named finds the resource of a canonical name, nil if there is none.
func (t *fileType) named(key string) *wire.Resource {
	if r := t.byKey[key]; r != nil {
		return r
	}
	return t.aliases[key]
}

// covered are the resources that a set of canonical names, globs and "*" asks for, by
// their own canonical names (SUB-13).
func (t *fileType) covered(wanted map[string]struct{}) map[string]*wire.Resource {
	found := make(map[string]*wire.Resource)
	add := func(r *wire.Resource) {
		if key, err := keyer.Key(r.Name); err == nil { // newFileType has seen it
			found[key] = r
		}
	}
	for key := range wanted {
		switch {
		case key == wildcard:
			for _, r := range t.resources {
				add(r)
			}
		case collection(key):
			for _, r := range t.members[key] {
				add(r)
			}
		default:
			if r := t.named(key); r != nil {
				add(r)
			}
		}
	}
	return found
}
