package downstream

import (
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refusedError is why the relay answers a name itself; all else goes on.
type refusedError struct {
	code codes.Code
	err  error
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

func refusal(err error) *refusedError {
	r, _ := errors.AsType[*refusedError](err)
	return r
}

// maxNameLength bounds names (OPS-5). They go on to the control plane in requests
// that are shared with other clients, and come back in responses that must not pass
// their limit (RES-9): so no name may be large by itself.
const maxNameLength = 64 << 10

// locate finds the store and the key of a name: xdstp names by their authority and
// directives, others by the client's scope. What the relay must answer itself is a refusedError;
// any other error is a status that ends the stream or the poll.
func locate(routes Routes, typeURL, spelling string) (*cache.Store, cache.Name, error) {
	if wire.IsLocator(spelling) {
		return locateVariant(routes, typeURL, spelling)
	}
	return locatePlain(routes, typeURL, spelling)
}

func locatePlain(routes Routes, typeURL, spelling string) (*cache.Store, cache.Name, error) {
	name := cache.Name{Spelling: spelling, Key: spelling}
	if len(spelling) > maxNameLength { // ABS-4
		return nil, name, &refusedError{
			codes.ResourceExhausted, fmt.Errorf("a resource name has %d bytes, at most %d are served", len(spelling), maxNameLength),
		}
	}
	if !keyer.IsXDSTP(spelling) {
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
	store, key, err := routes.Named(parsed)
	if errors.Is(err, ErrNoUpstream) {
		return nil, name, &refusedError{codes.NotFound, err} // LOC-4
	}
	if err != nil {
		return nil, name, authorityError(err)
	}
	name.Key = key
	return store, name, nil
}

// authorityError is how a stream ends whose name cannot be looked up now.
func authorityError(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}

// scopeError is how a stream ends that may not have a scope (AGG-2).
func scopeError(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if _, ok := errors.AsType[*rules.RefusedError](err); ok {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return status.Error(codes.InvalidArgument, err.Error())
}
