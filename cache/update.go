package cache

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// RejectedError is why a response is NACKed (ACK-6). Unless Partly, nothing of it was applied.
type RejectedError struct {
	Reason string
	Partly bool // only the named resources were left out
}

func (e *RejectedError) Error() string { return e.Reason }

// Partial says whether only the named resources were left out.
func (e *RejectedError) Partial() bool { return e.Partly }

// update is a response on its way into a table.
type update struct {
	response    *wire.Response
	keys        []string        // of response.Resources; badKey where the name is bad
	removed     []string        // keys of response.Removed, likewise
	failed      []string        // keys of response.Errors, likewise, and badKey where it was named before
	failing     map[string]bool // the same as a set; nil without any
	resolved    bool            // the relay itself says so
	heartbeats  bool            // a state of the world without content: no list, it removes nothing (TTL-3)
	restored    bool            // an earlier process left it (Restore)
	bad         []error
	received    time.Time
	unsolicited int
	foreign     int    // resources that the server does not speak for
	foreigner   string // the name of one of them
	wentBack    int    // resources whose content went back, if these are many (SUR-7)
}

// badKey stands in an update for a key that is left out. No resource may have a name that begins
// with a NUL. The empty string is a name (NAME-9).
const badKey = "\x00"

// newUpdate works out the keys and checks the envelope, before any lock is taken.
func newUpdate(r *wire.Response, received time.Time) (*update, error) {
	u := &update{response: r, received: received, heartbeats: r.HeartbeatsOnly()}
	u.keys = make([]string, len(r.Resources))
	for i, res := range r.Resources {
		if typeURL := res.TypeURL(); res.HasPayload() && !mayHold(r.TypeURL, typeURL) {
			return nil, &RejectedError{Reason: fmt.Sprintf("resource %q is of type %q in a response for %q",
				res.Name, typeURL, r.TypeURL)}
		}
		u.keys[i] = badKey
		if err := badTTL(res); err != nil {
			u.bad = append(u.bad, err)
			continue
		}
		if res.Constrained() {
			u.bad = append(u.bad, constrained(res.Name))
			continue
		}
		key := u.key(res.Name)
		if err := misnamed(key, r.TypeURL, res); err != nil {
			u.bad = append(u.bad, err)
			continue
		}
		u.keys[i] = key
	}
	u.removed = make([]string, len(r.Removed))
	for i, name := range r.Removed {
		u.removed[i] = u.key(name)
	}
	u.keysOfErrors()
	for _, name := range r.Constrained { // of removals
		u.bad = append(u.bad, constrained(name))
	}
	switch twice, found := duplicate(u.keys, u.removed); {
	case found && twice == "":
		return nil, &RejectedError{Reason: `resource "" occurs twice: in the state of the world, resources of ` +
			"types that this relay does not know must be wrapped in envoy.service.discovery.v3.Resource with a name"}
	case found:
		return nil, &RejectedError{Reason: fmt.Sprintf("resource %q occurs twice", twice)}
	}
	return u, nil
}

// mayHold reports whether a response for a type may hold a payload of another. Of types that this build does not know
// nothing is known of their payloads either, but that they are no payloads of others (ACK-6): Istio's types of the Mesh
// Configuration Protocol all have the same one.
func mayHold(typeURL, payload string) bool {
	return wire.MayHold(typeURL, payload) || !knownType(typeURL) && !knownType(payload)
}

// knownType reports whether this build knows a type, whatever stands before the message's name: clients do not look at that.
func knownType(typeURL string) bool {
	_, is := keyer.KnownType(typeURL)
	return is || xds.HasService(typeURL)
}

// keysOfErrors works out the keys of the errors. Of two errors of one name the first counts.
// Servers may call the wildcard "" there; "" is also a name (nameErrors).
func (u *update) keysOfErrors() {
	if len(u.response.Errors) == 0 {
		return
	}
	u.failed = make([]string, len(u.response.Errors))
	u.failing = make(map[string]bool, len(u.failed))
	for i := range u.response.Errors {
		u.failed[i] = badKey
		if u.response.Errors[i].Constrained {
			u.bad = append(u.bad, constrained(u.response.Errors[i].Name))
			continue
		}
		key := Wildcard
		if name := u.response.Errors[i].Name; name != "" {
			key = u.key(name)
		}
		if !u.failing[key] {
			u.failed[i], u.failing[key] = key, true
		}
	}
}

// nameErrors has an error without a name be that of the name "" where the table has
// names (NAME-9). There the wildcard is not subscribed to.
func (u *update) nameErrors(t *Table) {
	if t.kind == WholeType || t.entries[""] == nil || u.resolved || !u.failing[Wildcard] {
		return
	}
	for i, key := range u.failed {
		if key == Wildcard && u.response.Errors[i].Name == "" {
			delete(u.failing, Wildcard)
			u.failed[i], u.failing[""] = "", true
		}
	}
}

func (u *update) key(name string) string {
	key, err := keyer.Key(name)
	if err != nil {
		u.bad = append(u.bad, err)
		return badKey
	}
	if wire.IsReserved(key) {
		u.bad = append(u.bad, fmt.Errorf("the name %q begins with a NUL", key))
		return badKey
	}
	return key
}

// constrained says that the server has a resource for some dynamic parameters only. The relay has no
// client with parameters, and does not serve what may be meant for others (DYN-1).
func constrained(name string) error {
	return fmt.Errorf("resource %q has dynamic_parameter_constraints, which the relay does not serve (DYN-1)", name)
}

// misnamed says that a resource has a name under which there can be no such payload: a glob has
// none at all and cannot be redirected (LOC-2), and a list collection has the name of one (LIST-1).
func misnamed(key, typeURL string, r *wire.Resource) error {
	switch {
	case !r.HasPayload() || key == badKey:
		return nil
	case keyer.IsGlob(key) && r.TypeURL() == wire.RedirectTypeURL:
		return fmt.Errorf("glob collection %q is redirected: only its members may be (LOC-2)", key)
	case keyer.IsGlob(key):
		return fmt.Errorf("glob collection %q has a payload of type %q: only its members have payloads", key, r.TypeURL())
	case r.TypeURL() == typeURL || r.TypeURL() == wire.RedirectTypeURL || !wire.MayHold(typeURL, r.TypeURL()):
		return nil
	case keyer.TypeOf(key) != r.TypeURL()[strings.LastIndexByte(r.TypeURL(), '/')+1:]:
		return fmt.Errorf("resource %q is of type %q, which its name does not say (LIST-1)", key, r.TypeURL())
	default:
		return nil
	}
}

// duplicate finds a key that occurs twice.
func duplicate(keys, removed []string) (key string, found bool) {
	if len(keys)+len(removed) < 2 {
		return "", false
	}
	all := slices.Concat(keys, removed)
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] && all[i] != badKey {
			return all[i], true
		}
	}
	return "", false
}

// saysNothing reports whether nothing of a response can be used: it is no answer, since
// an answer without members would be an empty list to clients of the state of the world.
func (u *update) saysNothing() bool {
	bad := func(key string) bool { return key == badKey }
	all := func(keys []string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return !bad(key) })
	}
	return len(u.bad) > 0 && all(u.keys) && all(u.removed) && all(u.failed)
}

// onlyDelays reports whether a response has nothing but errors that leave their names open: the
// server still waits for something. No collection is answered by that, unless the response is
// the list of all that there is (RES-2).
func (u *update) onlyDelays() bool {
	if len(u.keys)+len(u.removed) > 0 || len(u.response.Errors) == 0 || u.response.Complete {
		return false
	}
	return !slices.ContainsFunc(u.response.Errors, func(e wire.ResourceError) bool { return !(&e).Transient() })
}

// lists reports whether a resource that the response does not hold is gone.
func (u *update) lists(t *Table) bool {
	return u.response.Complete || t.store.source.FullState[t.typeURL] && !u.response.Partial
}

// concludes reports whether what the response leaves out may be gone.
func (u *update) concludes() bool { return len(u.bad) == 0 && !u.heartbeats }

// same reports whether an entry holds a resource. The resolver may take a resource from an
// alternative under another name. That alone is no change (RES-1).
func (u *update) same(held, r *wire.Resource) bool {
	return held.SameContent(r) || (u.resolved && held.Version == r.Version && held.DoNotCache == r.DoNotCache &&
		bytes.Equal(held.Any(), r.Any()))
}
