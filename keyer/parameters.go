package keyer

import (
	"errors"
	"fmt"
)

var errNoParameterKey = errors.New("a dynamic parameter without a key")

// Bounds of the dynamic parameters of one subscription (OPS-5): they are part of its
// key, here and in the requests that go upstream.
const (
	maxParameters     = 64
	maxParameterBytes = 4 << 10
)

// CheckParameters refuses dynamic parameters (DYN-1) that are more than 64, or whose
// keys and values take more than 4 KiB together, or one without a key (OPS-5).
func CheckParameters(parameters map[string]string) error {
	if len(parameters) > maxParameters {
		return fmt.Errorf("%d dynamic parameters, at most %d are served", len(parameters), maxParameters)
	}
	size := 0
	for key, value := range parameters {
		if key == "" {
			return errNoParameterKey
		}
		size += len(key) + len(value)
	}
	if size > maxParameterBytes {
		return fmt.Errorf("dynamic parameters of %d bytes, at most %d are served", size, maxParameterBytes)
	}
	return nil
}
