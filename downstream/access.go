package downstream

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

var errNarrowed = Moved("the configuration changed what this client may get: connect again")

// differs reports whether the client may get other names of a type by other routes.
func differs(now, next Routes, typeURL string) bool {
	a, b := now.Access(), next.Access()
	switch {
	case a != nil:
		return a.Differs(b, typeURL)
	case b != nil:
		return b.Differs(a, typeURL)
	}
	return false
}

// both is what two plans allow. A stream or poll that the plan in force ends is served so until it
// ends: by its own plan, and nothing that the plan in force denies.
type both struct{ now, next Access }

func (b both) ByName(typeURL string) bool {
	return b.now.ByName(typeURL) || b.next.ByName(typeURL)
}

func (b both) Allows(use delivery.Use, typeURL, name string) bool {
	return b.now.Allows(use, typeURL, name) && b.next.Allows(use, typeURL, name)
}

func (b both) Subscribes(typeURL, spelling string) error {
	if err := b.now.Subscribes(typeURL, spelling); err != nil {
		return err
	}
	return b.next.Subscribes(typeURL, spelling)
}

func (b both) Forget(typeURL, spelling string) {
	b.now.Forget(typeURL, spelling)
	b.next.Forget(typeURL, spelling)
}

// Unwatched implements Watched.
func (b both) Unwatched() Access { return both{Unwatched(b.now), Unwatched(b.next)} }

func (b both) Differs(next Access, typeURL string) bool {
	return b.now.Differs(next, typeURL) || b.next.Differs(next, typeURL)
}

// narrowed are the routes of a stream or poll that the plan in force ends.
type narrowed struct {
	Routes

	access Access
}

// Access implements Routes.
func (n narrowed) Access() Access { return n.access }

// narrow has the client get only what the next routes allow, too.
func (r *routing) narrow(next Routes, places []*delivery.Place) {
	now, then := r.routes.Access(), next.Access()
	switch {
	case then == nil:
		return
	case now != nil:
		then = both{now, then}
	}
	r.routes = narrowed{r.routes, then}
	judgedBy(then, places, true)
}

// judgedBy has places judge by an access, which may be nil.
func judgedBy(access Access, places []*delivery.Place, narrower bool) {
	for _, place := range places {
		place.JudgedBy(judgeOf(access), narrower)
	}
}

// judgeOf returns an access as a judge; nil for nil.
func judgeOf(access Access) delivery.Judge {
	if access == nil {
		return nil
	}
	return access
}

// denied collects the names that an incremental client presents, and that it can only have from
// "*", which it may not subscribe to any more: they are told as removed, whether they exist or not.
func (t *typeState) denied(ch *change, versions *wire.Versions) {
	if t.refusals.names[cache.Wildcard] != codes.PermissionDenied {
		return
	}
	h := newHolder(ch)
	for it := versions.Walk(); it.Next(); {
		if _, named := h.named[string(it.Name)]; !named && len(it.Name) <= maxNameLength && !h.covers(it.Name) {
			t.refusals.lost = append(t.refusals.lost, string(it.Name))
		}
	}
}
