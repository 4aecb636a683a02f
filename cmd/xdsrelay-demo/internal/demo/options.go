package demo

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// Options say what is played; see [DefaultOptions].
type Options struct {
	// Clients connect at the start; a tenth as many join while the control plane
	// is away.
	Clients int
	// ClientsPerConnection is how many clients share one connection to the relay.
	ClientsPerConnection int
	// Duration is about how long it takes.
	Duration time.Duration
	// Addresses to listen on; "" is a free port of 127.0.0.1.
	ControlPlane, Relay, Admin string
	// Screen shows what happens; nil shows nothing.
	Screen Screen
	// Version is the program's.
	Version string

	// Stay, if not nil, is given the summary and the addresses. Then everything goes on until the context ends.
	Stay func(s *Summary, at Addresses)

	// reject, if not nil, is asked about each response; an error rejects it.
	reject func(client int, r *xdsclient.Response) error
}

// Addresses are where the demo listens.
type Addresses struct{ ControlPlane, Relay, Admin string }

// DefaultOptions are what `make demo` shows, without a screen.
func DefaultOptions() Options {
	return Options{Clients: 1000, ClientsPerConnection: 1, Duration: time.Minute}
}

// minDuration leaves each phase enough time to be one.
const minDuration = time.Second

// Validate says what is wrong with the options, all of it.
func (o Options) Validate() error {
	var errs []error
	if o.Clients < 1 {
		errs = append(errs, fmt.Errorf("clients: expected 1 or more, got %d", o.Clients))
	}
	if o.ClientsPerConnection < 1 {
		errs = append(errs, fmt.Errorf("clients per connection: expected 1 or more, got %d", o.ClientsPerConnection))
	}
	if o.Duration < minDuration {
		errs = append(errs, fmt.Errorf("duration: expected %s or more, got %s", minDuration, o.Duration))
	}
	for _, address := range []string{o.ControlPlane, o.Relay, o.Admin} {
		if address == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			errs = append(errs, fmt.Errorf("address to listen on: %w", err))
		}
	}
	return errors.Join(errs...)
}

// addressOr gives an address to listen on.
func addressOr(given string) string { return cmp.Or(given, "127.0.0.1:0") }

// joiners is how many clients join while the control plane is away.
func joiners(clients int) int { return max(1, clients/10) }
