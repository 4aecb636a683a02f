// Package workload has the relay's certificates and bundles of trust domains from SPIFFE Workload
// APIs (ACC-1): it follows each of them as long as somebody uses it, and keeps what it said last.
//
// It owns the connection to a Workload API and what that says. It makes no TLS configuration and ends
// no connection: package tlsfiles does the one, downstream/identity the other.
//
// A Workload API that is away takes nothing away: the last certificate stays in use until it expires,
// and the last bundles stay. One that says that the relay has no identity (PERMISSION_DENIED) does:
// the relay shows its certificate no more (SPIFFE Workload API, 5.2.1).
package workload

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"github.com/xdsrelay/xdsrelay/internal/contain"
)

// Observer is told of Workload APIs. Its methods may be called from any goroutine and must not block.
type Observer interface {
	// WorkloadAnswered tells that a Workload API gave certificates and bundles.
	WorkloadAnswered()
	// WorkloadFailed tells that one does not answer, or that its answer cannot be used.
	WorkloadFailed()
}

// Sources are the Workload APIs that a process uses. Its methods may be called from any goroutine.
type Sources struct {
	log      *slog.Logger
	observer Observer
	panics   *contain.Panics

	mu   sync.Mutex
	apis map[string]*api // guarded by mu; by address
}

// NewSources follows nothing yet. panics may be nil.
func NewSources(log *slog.Logger, observer Observer, panics *contain.Panics) *Sources {
	return &Sources{log: log, observer: observer, panics: panics, apis: make(map[string]*api)}
}

// Party says which certificate one side of connections shows, and whose it takes.
type Party struct {
	Sources *Sources
	// Socket is the address of the Workload API, unix:///path; that in the environment variable
	// SPIFFE_ENDPOINT_SOCKET if it is empty.
	Socket string
	// Domains are the trust domains of those at the other end; that of the own certificate if it is
	// empty.
	Domains []string
	// IDs are the SPIFFE IDs of those at the other end; all of Domains if it is empty.
	IDs []string
}

var errNoSocket = errors.New("no socket is configured, and " + workloadapi.SocketEnv + " is not set")

// address is where the Workload API is.
func (p *Party) address() (string, error) {
	address := cmp.Or(p.Socket, os.Getenv(workloadapi.SocketEnv))
	if address == "" {
		return "", errNoSocket
	}
	if !strings.HasPrefix(address, "unix:") { // keys would travel over a network in plaintext
		return "", fmt.Errorf("expected unix:///path, got %q", address)
	}
	return address, workloadapi.ValidateAddress(address)
}

// Open begins to use the Workload API, which need not answer: it is waited for two seconds at most. The
// error says what is wrong with p. The Source must be closed.
func (p *Party) Open() (*Source, error) {
	s := &Source{}
	for _, name := range p.Domains {
		domain, err := spiffeid.TrustDomainFromString(name)
		if err != nil {
			return nil, fmt.Errorf("spiffe: trust domain %q: %w", name, err)
		}
		s.domains = append(s.domains, domain)
	}
	for _, text := range p.IDs {
		id, err := spiffeid.FromString(text)
		if err != nil {
			return nil, fmt.Errorf("spiffe: SPIFFE ID %q: %w", text, err)
		}
		s.ids = append(s.ids, id)
	}
	address, err := p.address()
	if err == nil {
		s.api, err = p.Sources.use(address)
	}
	if err != nil {
		return nil, fmt.Errorf("spiffe: Workload API: %w", err)
	}
	s.api.listen()
	return s, nil
}

// use gives the API at an address to one more user.
func (s *Sources) use(address string) (*api, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.apis[address]
	if a == nil {
		var err error
		if a, err = newAPI(s, address); err != nil {
			return nil, err
		}
		s.apis[address] = a
		a.wg.Go(func() { s.panics.Loop(a.ctx, contain.Background, a.run) })
	}
	a.users++
	return a, nil
}

// leave takes a user from an API, and ends it after the last one.
func (s *Sources) leave(a *api) {
	s.mu.Lock()
	a.users--
	last := a.users == 0
	if last {
		delete(s.apis, a.address)
	}
	s.mu.Unlock()
	if last {
		a.close()
	}
}

// State says how many of the Workload APIs in use do not answer, or have no identity for the relay, and
// when the first of their certificates expires; zero: there is none.
func (s *Sources) State() (away int, expires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apis {
		said := a.said.Load()
		if said.away {
			away++
		}
		if said.cert != nil && (expires.IsZero() || said.cert.Leaf.NotAfter.Before(expires)) {
			expires = said.cert.Leaf.NotAfter
		}
	}
	return away, expires
}
