package wire

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// fieldLocatorParameters is dynamic_parameters of envoy.service.discovery.v3.ResourceLocator.
const fieldLocatorParameters protowire.Number = 2

// A name of two bytes takes sixteen when it is decoded, a locator of two bytes eighty, and a parameter of two bytes
// three hundred. So the number of them is bounded too (LIM-3).
const (
	// freeNames are names that each request may have, however short they are. Beyond these a name has nameBytes.
	freeNames = 1 << 16
	nameBytes = 8
)

// MaxNames returns how many names a request of so many bytes may have. Locators and their parameters count as names.
// In a poll all values of the names do.
func MaxNames(bytes int) int { return freeNames + bytes/nameBytes }

// NamesError is wrapped by the [DecodeError] of a request that has more than MaxNames.
type NamesError struct {
	Bytes int // of the request
}

func (e *NamesError) Error() string {
	return fmt.Sprintf("the request has too many names in %d bytes, at most %d are served", e.Bytes, MaxNames(e.Bytes))
}

// nameCount counts the names of a request while they are decoded.
type nameCount struct {
	names int
	bytes int // of the request
}

// count counts so many more.
func (c *nameCount) count(n int) error {
	c.names += n
	if c.names > MaxNames(c.bytes) {
		return &NamesError{Bytes: c.bytes}
	}
	return nil
}

// add adds a name to the repeated field called name.
func (c *nameCount) add(list *[]string, name string, b []byte) error {
	if err := c.count(1); err != nil {
		return err
	}
	return addString(list, name, b)
}

// addLocator adds a name with dynamic parameters or without.
func (c *nameCount) addLocator(list *[]*discoveryv3.ResourceLocator, name string, b []byte) error {
	n := 1
	for it := (fields{rest: b}); it.next(); {
		if it.is(fieldLocatorParameters, protowire.BytesType) {
			n++
		}
	}
	if err := c.count(n); err != nil {
		return err
	}
	return add(list, name, b, func(b []byte) (*discoveryv3.ResourceLocator, error) {
		l := new(discoveryv3.ResourceLocator)
		return l, checkMessage("", b, l, requestDepth)
	})
}
