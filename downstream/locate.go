package downstream

import (
	"errors"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	errReserved   = errors.New("a resource name begins with a NUL")
	errParameters = errors.New("the relay does not serve dynamic parameters: subscribe to the name without them")
)

// locate returns the store and the key of a name. The authority and the directives decide for an
// xdstp name, the client's scope for every other name. The error is a refusedError if the relay
// itself answers the name. Any other error is a status that ends the stream or the poll.
func locate(routes Routes, typeURL, spelling string) (*cache.Store, cache.Name, error) {
	return locateBy(routes, typeURL, spelling, permitted)
}

// find is locate for a name that the client does not subscribe to.
func find(routes Routes, typeURL, spelling string) (*cache.Store, cache.Name, error) {
	return locateBy(routes, typeURL, spelling, visible)
}

func locateBy(routes Routes, typeURL, spelling string, permitted func(routes Routes, typeURL, spelling string) error) (*cache.Store, cache.Name, error) {
	name := cache.Name{Spelling: spelling, Key: spelling}
	if wire.IsReserved(spelling) {
		return nil, name, refuseReserved(spelling)
	}
	if err := tooLong(spelling, maxNameLength); err != nil { // ABS-4
		return nil, name, err
	}
	if !keyer.IsXDSTP(spelling) {
		if err := permitted(routes, typeURL, spelling); err != nil {
			return nil, name, err
		}
		store, err := routes.Scoped(typeURL, spelling)
		if err != nil {
			return nil, name, scopeError(err)
		}
		return store, name, nil
	}
	parsed, err := keyer.Parse(spelling)
	if err == nil {
		err = keyer.CheckType(parsed, typeURL)
	}
	if err != nil {
		return nil, name, &refusedError{codes.InvalidArgument, err} // NAME-1, NAME-5
	}
	if err := permitted(routes, typeURL, spelling); err != nil {
		return nil, name, err
	}
	store, key, err := routes.Named(parsed)
	if errors.Is(err, ErrNoUpstream) {
		return nil, name, &refusedError{codes.NotFound, err} // LOC-4
	}
	if err != nil {
		return nil, name, statusOr(codes.Unavailable, err)
	}
	name.Key = key
	return store, name, nil
}

// permitted returns the refusal of a name that the client may not subscribe to. It is asked before
// the relay looks where the name lives, so that the answer is the same, and as soon, whether the
// resource exists or not (ACC-2).
func permitted(routes Routes, typeURL, spelling string) error {
	return permittedBy(routes.Access(), typeURL, spelling)
}

// visible is permitted for a name that the client does not subscribe to.
func visible(routes Routes, typeURL, spelling string) error {
	return permittedBy(Unwatched(routes.Access()), typeURL, spelling)
}

func permittedBy(access Access, typeURL, spelling string) error {
	if access == nil {
		return nil
	}
	if err := access.Subscribes(typeURL, spelling); err != nil {
		return &refusedError{codes.PermissionDenied, err}
	}
	return nil
}

// refuseReserved returns the refusal of a name with dynamic parameters (DYN-1), or of one that begins with a NUL.
func refuseReserved(word string) error {
	if _, parameters := wire.CutWord(word); parameters {
		return &refusedError{codes.InvalidArgument, errParameters}
	}
	return &refusedError{codes.InvalidArgument, errReserved}
}

// scopeError returns the status for a client that gets no scope (AGG-2).
func scopeError(err error) error {
	if _, ok := errors.AsType[*rules.RefusedError](err); ok {
		return statusOr(codes.PermissionDenied, err)
	}
	return statusOr(codes.InvalidArgument, err)
}

// statusOr returns err if it is a status, and else a status with a code.
func statusOr(code codes.Code, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(code, err.Error())
}

// wraps reports whether a state-of-the-world client announces that it knows wrapped resources (RES-13).
func wraps(node *corev3.Node) bool { return wire.AnnouncesWrapping(node.GetClientFeatures()) }
