// Package workloads is a SPIFFE Workload API for tests: go-spiffe's service on a unix socket, which
// says what a test tells it. It may be away, come back and change its mind.
package workloads

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// API is a Workload API. It is away until Start.
type API struct {
	workload.UnimplementedSpiffeWorkloadAPIServer

	tb   testing.TB
	path string

	mu      sync.Mutex
	says    *workload.X509SVIDResponse // nil: that there is no identity
	tokens  Tokens                     // nil: that there is no identity
	asked   int                        // for tokens
	changed chan struct{}              // closed with each change of says
	server  *grpc.Server               // nil: it is away
	served  chan struct{}
}

// Bundles are the authorities of trust domains, by the name of the domain.
type Bundles map[string]*pki.Authority

// Tokens issues the token for audiences.
type Tokens func(audiences []string) string

// New makes a Workload API that is away and gives no identity. It ends with the test.
func New(tb testing.TB) *API {
	tb.Helper()
	dir, err := os.MkdirTemp("", "spiffe") //nolint:usetesting // the path of a socket is short, and tests have long names
	if err != nil {
		tb.Fatal(err)
	}
	a := &API{tb: tb, path: filepath.Join(dir, "agent.sock"), changed: make(chan struct{})}
	tb.Cleanup(func() {
		a.Stop()
		_ = os.RemoveAll(dir) // it is in the folder for temporary files
	})
	return a
}

// Socket is its address.
func (a *API) Socket() string { return "unix://" + a.path }

// Give has it give an SVID, with the bundle of the SVID's own trust domain and those of others.
func (a *API) Give(svid tls.Certificate, own *pki.Authority, federated Bundles) {
	a.tb.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(svid.PrivateKey)
	if err != nil {
		a.tb.Fatal(err)
	}
	says := &workload.X509SVIDResponse{
		Svids: []*workload.X509SVID{{
			SpiffeId: svid.Leaf.URIs[0].String(), X509Svid: slices.Concat(svid.Certificate...), X509SvidKey: key, Bundle: own.Root().Raw,
		}},
		FederatedBundles: make(map[string][]byte),
	}
	for domain, ca := range maps.All(federated) {
		says.FederatedBundles["spiffe://"+domain] = ca.Root().Raw
	}
	a.say(says)
}

// Issue has it give tokens: nil says that there is no identity.
func (a *API) Issue(tokens Tokens) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = tokens
}

// Asked is how often it was asked for a token.
func (a *API) Asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// Deny has it say that there is no identity.
func (a *API) Deny() { a.say(nil) }

func (a *API) say(says *workload.X509SVIDResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.says = says
	close(a.changed)
	a.changed = make(chan struct{})
}

// Start has it answer.
func (a *API) Start() {
	a.tb.Helper()
	lis, err := new(net.ListenConfig).Listen(a.tb.Context(), "unix", a.path)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	server, served := grpc.NewServer(), make(chan struct{})
	workload.RegisterSpiffeWorkloadAPIServer(server, a)
	a.server, a.served = server, served
	go func() {
		defer close(served)
		if err := server.Serve(lis); err != nil {
			a.tb.Error(err)
		}
	}()
}

// Stop has it go away. It may come back.
func (a *API) Stop() {
	a.mu.Lock()
	server, served := a.server, a.served
	a.server = nil
	a.mu.Unlock()
	if server != nil {
		server.Stop()
		<-served
	}
}

// checkHeader refuses calls that a browser may have been made to send (SPIFFE Workload Endpoint, 3).
func checkHeader(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if !slices.Contains(md.Get("workload.spiffe.io"), "true") {
		return status.Error(codes.InvalidArgument, "the security header is missing")
	}
	return nil
}

// FetchJWTSVID implements workload.SpiffeWorkloadAPIServer.
func (a *API) FetchJWTSVID(ctx context.Context, req *workload.JWTSVIDRequest) (*workload.JWTSVIDResponse, error) {
	if err := checkHeader(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.asked++
	tokens := a.tokens
	a.mu.Unlock()
	switch {
	case len(req.GetAudience()) == 0:
		return nil, status.Error(codes.InvalidArgument, "audience must be specified")
	case tokens == nil:
		return nil, status.Error(codes.PermissionDenied, "no identity issued")
	}
	return &workload.JWTSVIDResponse{Svids: []*workload.JWTSVID{{Svid: tokens(req.GetAudience())}}}, nil
}

// FetchX509SVID implements workload.SpiffeWorkloadAPIServer.
func (a *API) FetchX509SVID(_ *workload.X509SVIDRequest, stream workload.SpiffeWorkloadAPI_FetchX509SVIDServer) error {
	if err := checkHeader(stream.Context()); err != nil {
		return err
	}
	for {
		a.mu.Lock()
		says, changed := a.says, a.changed
		a.mu.Unlock()
		if says == nil {
			return status.Error(codes.PermissionDenied, "no identity issued")
		}
		if err := stream.Send(says); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}
