package credentials

import (
	"errors"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// source has the certificate of one side, and whose certificates it takes. Its methods may be called
// from any goroutine.
type source interface {
	// current gives both as they are now. The error says why there is no certificate.
	current() (*material, error)
	// roots gives whose certificates count, also while there is no certificate. Nil: nobody's are
	// asked for.
	roots() *Roots
	close()
}

var errTwoSources = errors.New("either files or a SPIFFE Workload API, not both")

// followTLS begins to follow what a side is configured with.
func followTLS(f paths, party *WorkloadParty, refresh time.Duration, report func(error), panics *logs.Panics) (source, error) {
	switch {
	case party == nil:
		return newWatcher(f, refresh, report, panics)
	case f != (paths{}):
		return nil, errTwoSources
	}
	from, err := party.Open()
	if err != nil {
		return nil, err
	}
	return svids{from}, nil
}

// svids are those of a Workload API.
type svids struct{ from *Workload }

// current implements source.
func (s svids) current() (*material, error) {
	cert, roots, err := s.from.Certificate(time.Now())
	if err != nil {
		return nil, err
	}
	return &material{cert: cert, roots: roots}, nil
}

// roots implements source.
func (s svids) roots() *Roots { return s.from.Roots() }

// close implements source.
func (s svids) close() { s.from.Close() }
