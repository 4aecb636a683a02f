package credentials

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

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// WorkloadObserver is told of Workload APIs. Its methods may be called from any goroutine and must not block.
type WorkloadObserver interface {
	// WorkloadAnswered tells that a Workload API gave certificates and bundles, or a token.
	WorkloadAnswered()
	// WorkloadFailed tells that one does not answer, or that its answer cannot be used.
	WorkloadFailed()
}

// Workloads are the Workload APIs that a process uses. Its methods may be called from any goroutine.
type Workloads struct {
	log      *slog.Logger
	observer WorkloadObserver
	panics   *logs.Panics

	mu     sync.Mutex
	apis   map[string]*api             // guarded by mu; by address
	tokens map[*WorkloadToken]struct{} // guarded by mu
}

// NewWorkloads follows nothing yet. panics may be nil.
func NewWorkloads(log *slog.Logger, observer WorkloadObserver, panics *logs.Panics) *Workloads {
	return &Workloads{log: log, observer: observer, panics: panics, apis: make(map[string]*api), tokens: make(map[*WorkloadToken]struct{})}
}

// WorkloadParty says which certificate one side of connections shows, and whose it takes.
type WorkloadParty struct {
	Sources *Workloads
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

// addressOf is where the Workload API is that a configuration means.
func addressOf(socket string) (string, error) {
	address := cmp.Or(socket, os.Getenv(workloadapi.SocketEnv))
	if address == "" {
		return "", errNoSocket
	}
	if !strings.HasPrefix(address, "unix:") { // keys and tokens would travel over a network in plaintext
		return "", fmt.Errorf("expected unix:///path, got %q", address)
	}
	return address, workloadapi.ValidateAddress(address)
}

// Open begins to use the Workload API, which need not answer: it is waited for two seconds at most. The
// error says what is wrong with p. The Workload must be closed.
func (p *WorkloadParty) Open() (*Workload, error) {
	s := &Workload{}
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
	address, err := addressOf(p.Socket)
	if err == nil {
		s.api, err = p.Sources.use(address)
	}
	if err != nil {
		return nil, fmt.Errorf("spiffe: Workload API: %w", err)
	}
	await(s.api.heard)
	return s, nil
}

// use gives the API at an address to one more user.
func (s *Workloads) use(address string) (*api, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.apis[address]
	if a == nil {
		var err error
		if a, err = newAPI(s, address); err != nil {
			return nil, err
		}
		s.apis[address] = a
		a.wg.Go(func() { s.panics.Loop(a.ctx, logs.PartBackground, a.run) })
	}
	a.users++
	return a, nil
}

// leave takes a user from an API, and ends it after the last one.
func (s *Workloads) leave(a *api) {
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

// follow has WorkloadState know of a token.
func (s *Workloads) follow(t *WorkloadToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[t] = struct{}{}
}

// unfollow takes a token from WorkloadState.
func (s *Workloads) unfollow(t *WorkloadToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, t)
}

// WorkloadState is how the Workload APIs in use are.
type WorkloadState struct {
	// Away is how many of them do not answer, or have no identity for the relay.
	Away int
	// Certificate and Token are when the first certificate and the first token expire; zero: there is none.
	Certificate, Token time.Time
}

// State says how the Workload APIs in use are now.
func (s *Workloads) State() WorkloadState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var now WorkloadState
	away := make(map[string]bool)
	for _, a := range s.apis {
		said := a.said.Load()
		away[a.address] = said.away
		if said.cert != nil {
			now.Certificate = notify.Earlier(now.Certificate, said.cert.Leaf.NotAfter)
		}
	}
	for t := range s.tokens {
		issued := t.issued.Load()
		away[t.address] = away[t.address] || issued.away
		if issued.token != "" {
			now.Token = notify.Earlier(now.Token, issued.expires)
		}
	}
	for _, is := range away {
		if is {
			now.Away++
		}
	}
	return now
}
