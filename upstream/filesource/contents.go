package filesource

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// contents is what a valid file says. Immutable.
type contents struct {
	typeURL   string
	version   string // version_info, or a digest of the resources without one (ACK-4)
	resources []*wire.Resource
	errors    []wire.ResourceError // resource_errors (ERR-1)
}

// parse reads the data of a file of a format, whose index in formats is given.
func parse(format int, data []byte, limit int64) (*contents, *Error) {
	r, bad := formats[format].decode(data, limit)
	if bad != nil {
		return nil, bad
	}
	// Nothing at all is what a file holds at the moment in which it is written
	// anew, and says nothing about any type.
	if r.GetTypeUrl() == "" && len(r.GetResources()) == 0 {
		return nil, errorf("holds neither a type_url nor a resource")
	}
	c := &contents{typeURL: r.GetTypeUrl(), version: r.GetVersionInfo()}
	names := make(map[string]int, len(r.GetResources()))
	for i, packed := range r.GetResources() {
		resource, err := newResource(packed)
		if err != nil {
			return nil, errorf("resources[%d]: %v", i, err)
		}
		if c.typeURL == "" && resource.TypeURL() == wire.RedirectTypeURL {
			return nil, errorf("resources[%d]: a redirect, which does not tell of what type: expected a type_url", i)
		}
		if c.typeURL == "" {
			c.typeURL = strings.Clone(resource.TypeURL())
		}
		if !wire.MayHold(c.typeURL, resource.TypeURL()) {
			return nil, errorf("resources[%d]: expected the type %s, got %s", i, shown(c.typeURL), shown(resource.TypeURL()))
		}
		if resource.Constrained() {
			return nil, errorf("resources[%d]: %v", i, errConstrained)
		}
		if first, again := names[resource.Name]; again {
			return nil, errorf("resources[%d]: the name %s is that of resources[%d] already", i, shown(resource.Name), first)
		}
		names[resource.Name] = i
		c.resources = append(c.resources, resource)
	}
	for i, e := range r.GetResourceErrors() {
		made, err := wire.NewResourceError(e)
		if err != nil {
			return nil, errorf("resource_errors[%d]: %v", i, err)
		}
		if made.Constrained {
			return nil, errorf("resource_errors[%d]: %v", i, errConstrained)
		}
		c.errors = append(c.errors, made)
	}
	if c.version == "" {
		c.version = digest(c.resources)
	}
	return c, nil
}

// errConstrained refuses what is for some dynamic parameters only (DYN-1).
var errConstrained = errors.New("has dynamic_parameter_constraints, which the relay does not serve")

var errNotTyped = errors.New("has no payload, or one without type")

// newResource makes a resource of an element of a response, wrapped or bare. The error
// tells nothing of what is in it (OPS-6).
func newResource(packed *anypb.Any) (*wire.Resource, error) {
	resource, err := wire.NewStateResource(packed)
	if packed.GetTypeUrl() == "" || err == nil && resource.TypeURL() == "" {
		return nil, errNotTyped
	}
	if undecodable, ok := errors.AsType[*wire.DecodeError](err); ok {
		return nil, fmt.Errorf("%s: %w", undecodable.Field, undecodable.Err)
	}
	return resource, err
}

// digest is a version for resources that were given none, in hexadecimal digits:
// the same for the same resources in the same order.
func digest(resources []*wire.Resource) string {
	h := sha256.New()
	for _, r := range resources {
		h.Write(binary.AppendUvarint(nil, uint64(r.Size())))
		h.Write(r.Raw())
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
