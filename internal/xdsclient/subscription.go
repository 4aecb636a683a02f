package xdsclient

import (
	"maps"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// typeState is what is wanted and held of one type. It is guarded by the client's
// lock.
type typeState struct {
	url      string
	nonce    string // of the last response that was answered on the present stream (STR-9)
	accepted string // version_info of the last response that was accepted on any stream (ACK-2)
	named    bool   // a request on the present stream named something (SUB-2)

	link      *link
	requested bool // a request for the type was made on the present stream
	answered  bool // a response for the type was accepted since the wildcard was subscribed, on any stream

	wildcard bool
	legacy   bool              // the wildcard was subscribed by an empty request
	names    map[string]bool   // as they were subscribed, globs included: whether the server said something of it
	keys     map[string]string // key of an xdstp name → the spelling that was subscribed

	held    map[string]Held
	excused map[string]struct{} // held ones that the present stream gave an error for (ERR-1); nil without any
	aliases map[string]string   // alias → name under which the resource is held; nil without any
	known   map[string][]string // name under which a resource is held → its aliases; nil without any
}

// sortedNames gives what is subscribed by name, globs included and the wildcard not.
func (t *typeState) sortedNames() []string { return slices.Sorted(maps.Keys(t.names)) }

// versions gives name and version of everything held.
func (t *typeState) versions() map[string]string {
	versions := make(map[string]string, len(t.held))
	for name, h := range t.held {
		versions[name] = h.Version
	}
	return versions
}

// complete tells whether the server has said something of everything that is
// subscribed.
func (t *typeState) complete() bool {
	if t.wildcard && !t.answered {
		return false
	}
	for _, said := range t.names {
		if !said {
			return false
		}
	}
	return true
}

// forget lets go of what is held, as if nothing had been said yet.
func (t *typeState) forget() {
	clear(t.held)
	t.aliases, t.known, t.excused = nil, nil, nil
	t.answered = false
	for name := range t.names {
		t.names[name] = false
	}
}

func newType(url string) *typeState {
	return &typeState{
		url: url, names: make(map[string]bool), keys: make(map[string]string), held: make(map[string]Held),
	}
}

func (t *typeState) wanted() bool { return t.wildcard || len(t.names) > 0 }

func (t *typeState) subscribe(names []string) {
	if len(names) == 0 {
		t.wildcard, t.legacy = true, true
		return
	}
	for _, name := range names {
		if name == Wildcard {
			t.answered = t.answered && t.wildcard // not by what came for names
			t.wildcard = true
			continue
		}
		if _, asked := t.names[name]; !asked {
			t.names[name] = false
		}
		if key, ok := xdstpKey(name); ok {
			t.keys[key] = name
		}
	}
}

func (t *typeState) unsubscribe(names []string) {
	for _, name := range names {
		if name == Wildcard {
			t.wildcard, t.legacy = false, false
			continue
		}
		delete(t.names, name)
		if key, ok := xdstpKey(name); ok && t.keys[key] == name {
			delete(t.keys, key)
		}
	}
	if t.wildcard {
		return // the server says whether the wildcard holds them too (SUB-8)
	}
	for name := range t.held {
		if !t.covers(name, t.known[name]) {
			t.drop(name)
		}
	}
}

// xdstpKey gives the key of a valid xdstp name.
func xdstpKey(name string) (string, bool) {
	if !keyer.IsXDSTP(name) {
		return "", false
	}
	key, err := keyer.Key(name)
	return key, err == nil
}

// asked finds the spelling under which a name was subscribed by itself, and whether it
// was, and the spelling of the glob that it is a member of; "" if there is none.
func (t *typeState) asked(name string) (own string, byName bool, glob string) {
	_, byName = t.names[name]
	own = name
	if len(t.keys) == 0 {
		return own, byName, ""
	}
	key, ok := xdstpKey(name)
	if !ok {
		return own, byName, ""
	}
	if !byName {
		own, byName = t.keys[key] // NAME-3
	}
	return own, byName, t.keys[keyer.GlobOf(key)]
}

// covers tells whether a resource of this name and these aliases is wanted (RES-10).
func (t *typeState) covers(name string, aliases []string) bool {
	if t.wildcard {
		return true
	}
	if _, byName, glob := t.asked(name); byName || glob != "" {
		return true
	}
	return slices.ContainsFunc(aliases, func(alias string) bool { _, asked := t.names[alias]; return asked })
}

// mark notes that the server said something of a name, and of its glob if it sent a member.
func (t *typeState) mark(name string, sent bool) {
	own, byName, glob := t.asked(name)
	if byName {
		t.names[own] = true
	}
	if glob != "" && sent {
		t.names[glob] = true
	}
}

// put holds a resource that was sent.
func (t *typeState) put(r *wire.Resource, version string, keep bool) {
	name := r.Name
	h := Held{Version: version, Resource: r}
	if !keep {
		text := name + version // they are parts of r's bytes, which are not to be kept
		name, h = text[:len(name)], Held{Version: text[len(name):]}
	}
	t.drop(name) // and with it aliases that it no longer has
	t.held[name] = h
	t.mark(name, true)
	aliases := r.Aliases()
	if len(aliases) == 0 {
		return
	}
	if t.aliases == nil {
		t.aliases, t.known = make(map[string]string), make(map[string][]string)
	}
	t.known[name] = aliases
	for _, alias := range aliases {
		t.aliases[alias] = name
		t.mark(alias, true)
	}
}

// remove forgets a resource that the server says does not exist.
func (t *typeState) remove(name string) {
	for _, alias := range t.known[name] {
		t.mark(alias, false)
	}
	t.drop(name)
	t.mark(name, false)
}

// drop forgets what is held under a name.
func (t *typeState) drop(name string) {
	for _, alias := range t.known[name] {
		if t.aliases[alias] == name {
			delete(t.aliases, alias)
		}
	}
	delete(t.known, name)
	delete(t.held, name)
	delete(t.excused, name)
}

// members gives, in order, the names that are held because of another one
// alone: as members of a glob (GLOB-4, GLOB-5), or by an alias (RES-10).
func (t *typeState) members(of string) []string {
	if name, ok := t.aliases[of]; ok {
		return []string{name}
	}
	key, ok := xdstpKey(of)
	if !ok || !keyer.IsGlob(key) || t.wildcard {
		return nil // what the wildcard holds is removed by its own name
	}
	var names []string
	for name := range t.held {
		if k, ok := xdstpKey(name); ok && keyer.GlobOf(k) == key {
			if _, byName, _ := t.asked(name); !byName {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// fail notes that the server gave an error, which it need not say again: until it sends
// the resource, its lack of it does not mean that there is none (ERR-1). listed says that the response
// with the error has the resource too: the next one without it means that it is gone.
func (t *typeState) fail(name string, listed bool) {
	if _, isHeld := t.held[name]; isHeld && !listed {
		if t.excused == nil {
			t.excused = make(map[string]struct{})
		}
		t.excused[name] = struct{}{}
	}
	t.mark(name, false)
}

// drops tells whether an error means that the resource is gone; the others keep
// what is held (ERR-1).
func drops(code codes.Code) bool { return code == codes.NotFound || code == codes.PermissionDenied }
