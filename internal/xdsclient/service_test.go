package xdsclient

import (
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

func TestVAR1UnservedError(t *testing.T) {
	err := &UnservedError{TypeURL: resource.VirtualHostType, Variant: "REST"}
	if got, want := err.Error(), "vhds cannot be asked for: there is no REST service for it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
