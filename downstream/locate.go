package downstream

import (
	"errors"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	errReservedName     = errors.New("a resource name begins with a NUL")
	errLocatedMany      = errors.New("a glob or * cannot be subscribed to with dynamic parameters")
	errLocatedDirective = errors.New("a name with directives cannot be subscribed to with dynamic parameters")
	errLocatedFollowed  = errors.New("a name whose redirects the relay follows cannot be subscribed to with dynamic parameters")
	errUnwrapped        = errors.New("dynamic parameters are for clients that know wrapped resources: announce " + wire.FeatureWrapping +
		", or use resource_locators in the first request of the stream")
)

// locate returns the store and the key of a name. The authority and the directives decide for an
// xdstp name, the client's scope for every other name. The error is a refusedError if the relay
// itself answers the name. Any other error is a status that ends the stream or the poll.
func locate(routes Routes, typeURL, spelling string) (*cache.Store, cache.Name, error) {
	if wire.IsLocator(spelling) {
		return locateVariant(routes, typeURL, spelling)
	}
	return locatePlain(routes, typeURL, spelling)
}

func locatePlain(routes Routes, typeURL, spelling string) (*cache.Store, cache.Name, error) {
	name := cache.Name{Spelling: spelling, Key: spelling}
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
	access := routes.Access()
	if access == nil {
		return nil
	}
	if err := access.Subscribes(typeURL, spelling); err != nil {
		return &refusedError{codes.PermissionDenied, err}
	}
	return nil
}

// locateVariant is locate for a name with dynamic parameters (DYN-1).
func locateVariant(routes Routes, typeURL, word string) (*cache.Store, cache.Name, error) {
	parameters, spelling := wire.CutLocator(word)
	if parameters == "" {
		return nil, cache.Name{Spelling: word, Key: word}, &refusedError{codes.InvalidArgument, errReservedName}
	}
	if err := keyer.CheckParameters(wire.Parameters(word)); err != nil { // OPS-5, ABS-4
		return nil, cache.Name{Spelling: word, Key: word}, &refusedError{codes.ResourceExhausted, err}
	}
	store, name, err := locatePlain(routes, typeURL, spelling)
	key := name.Key
	name = cache.Name{Spelling: word, Key: wire.Respell(word, key)}
	switch {
	case err != nil:
	case cache.IsCollection(key):
		err = &refusedError{codes.InvalidArgument, errLocatedMany}
	case strings.Contains(key, "#") && keyer.IsXDSTP(key):
		err = &refusedError{codes.InvalidArgument, errLocatedDirective}
	case store.Resolved():
		err = &refusedError{codes.InvalidArgument, errLocatedFollowed}
	}
	return store, name, err
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

// wraps reports whether a state-of-the-world client knows wrapped resources. The client announces
// this, or shows it by using locators (RES-13, DYN-1).
func wraps(node *corev3.Node, names []string) bool {
	return wire.AnnouncesWrapping(node.GetClientFeatures()) || slices.ContainsFunc(names, wire.IsLocator)
}
