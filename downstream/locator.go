package downstream

import (
	"errors"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
)

var (
	errReservedName     = errors.New("a resource name begins with a NUL")
	errLocatedMany      = errors.New("a glob or * cannot be subscribed to with dynamic parameters")
	errLocatedDirective = errors.New("a name with directives cannot be subscribed to with dynamic parameters")
	errLocatedFollowed  = errors.New("a name whose redirects the relay follows cannot be subscribed to with dynamic parameters")
	errUnwrapped        = errors.New("dynamic parameters are for clients that know wrapped resources: announce " + wire.FeatureWrapping +
		", or use resource_locators in the first request of the stream")
)

// wraps reports whether a client of the state of the world knows wrapped resources: it
// announces that, or uses locators, which says it too (RES-13, DYN-1).
func wraps(node *corev3.Node, names []string) bool {
	return wire.AnnouncesWrapping(node.GetClientFeatures()) || slices.ContainsFunc(names, wire.IsLocator)
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
	case key == cache.Wildcard || keyer.IsGlob(key):
		err = &refusedError{codes.InvalidArgument, errLocatedMany}
	case strings.Contains(key, "#") && keyer.IsXDSTP(key):
		err = &refusedError{codes.InvalidArgument, errLocatedDirective}
	case store.Resolved():
		err = &refusedError{codes.InvalidArgument, errLocatedFollowed}
	}
	return store, name, err
}
