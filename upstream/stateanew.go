package upstream

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxLeft bounds the bytes of the names that are remembered as left out since one answer. A server need not answer
// at all, while clients drop names without end (LIM-3).
const maxLeft = 1 << 20

// mostAnew is how often a name is left out and asked for again, at most, before the server is
// taken to have nothing of it.
const mostAnew = 3

// anewNames are names of a type that were wanted no more, and then again. A server that sent a
// response before it read the request without them ignores that request, as a stale one
// (STR-4). To it they were wanted all the time, and it does not send them again. So the answers
// to responses that come without them leave them out, and a request behind asks for them.
// Responses of full-state types hold all names anyway.
type anewNames struct {
	left, older map[string]struct{} // left out since the last answer, and since the one before; or the last ones
	bytes       int                 // of left
	wanted      map[string]int      // asked for since, and not sent: how often they may be left out
}

// leave notes that a name is wanted no more.
func (a *anewNames) leave(name string) {
	if a.left == nil {
		a.left = make(map[string]struct{})
	}
	if _, known := a.left[name]; !known {
		a.bytes += len(name)
	}
	a.left[name] = struct{}{}
	delete(a.wanted, name)
	if a.bytes > maxLeft {
		a.age()
	}
}

// age forgets the names that were left out longest ago.
func (a *anewNames) age() { a.older, a.left, a.bytes = a.left, nil, 0 }

// want notes that a name is wanted. again says that it was all the time.
func (a *anewNames) want(name string, again bool) {
	_, left := a.left[name]
	_, older := a.older[name]
	if !left && !older && !again {
		return
	}
	if a.wanted == nil {
		a.wanted = make(map[string]int)
	}
	a.wanted[name] = mostAnew
	if left {
		a.bytes -= len(name)
	}
	delete(a.left, name)
	delete(a.older, name)
}

// came notes the resources of a response.
func (a *anewNames) came(resources []*wire.Resource) {
	if len(a.wanted) == 0 {
		return
	}
	for _, r := range resources {
		delete(a.wanted, r.Name)
	}
}

// answered returns the names that the answer to a response says: all but those that are to be asked
// for again behind it.
func (a *anewNames) answered(names []string) []string {
	a.age()
	if len(a.wanted) == 0 {
		return names
	}
	rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return a.wanted[name] > 0 })
	for name, n := range a.wanted {
		if n--; n >= 0 {
			a.wanted[name] = n
		} else {
			delete(a.wanted, name)
		}
	}
	return rest
}
