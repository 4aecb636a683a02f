package credentials

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/retry"
)

// The pauses between attempts to reach a Workload API, which is on the same machine.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

// firstWait is how long the first word of a Workload API is waited for, so that a relay that starts
// beside one has its certificate and its tokens before the first client comes.
const firstWait = 2 * time.Second

// said is what a Workload API said last. It does not change.
type said struct {
	cert    *tls.Certificate // nil: none yet, or it was taken away
	domain  spiffeid.TrustDomain
	bundles *x509bundle.Set

	away bool  // it does not answer now, or has no identity for the relay
	why  error // there is no certificate
}

var errUnanswered = errors.New("it has not answered yet")

// api follows one Workload API.
type api struct {
	// Immutable after newAPI.
	of      *Workloads
	address string
	client  *workloadapi.Client
	ctx     context.Context // ends with close
	stop    context.CancelFunc
	wg      sync.WaitGroup

	users int // guarded by Workloads.mu
	said  atomic.Pointer[said]
	heard chan struct{} // closed when the API answered, or failed to, for the first time
	once  sync.Once

	// Owned by the goroutine of run.
	told   string // the reason that was logged last; "": it answers
	expiry *time.Timer
}

var _ workloadapi.X509ContextWatcher = (*api)(nil)

func newAPI(of *Workloads, address string) (*api, error) {
	a := &api{of: of, address: address, heard: make(chan struct{})}
	a.ctx, a.stop = context.WithCancel(context.Background())
	a.said.Store(&said{why: errUnanswered, away: true, bundles: x509bundle.NewSet()})
	var err error
	if a.client, err = dial(a.ctx, address); err != nil {
		a.stop()
		return nil, err
	}
	return a, nil
}

// dial makes the client of a Workload API, which connects when it is used.
func dial(ctx context.Context, address string) (*workloadapi.Client, error) {
	return workloadapi.New(ctx, workloadapi.WithAddr(address), workloadapi.WithBackoffStrategy(pace{}),
		workloadapi.WithDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: mostPause},
			MinConnectTimeout: mostPause,
		})))
}

// pace makes the delays between attempts.
type pace struct{}

// NewBackoff implements workloadapi.BackoffStrategy.
func (pace) NewBackoff() workloadapi.Backoff {
	return &retry.Backoff{Base: firstPause, Max: mostPause}
}

// run follows the API until its context ends. The client gives up after some statuses: the relay does not.
func (a *api) run() {
	for {
		_ = a.client.WatchX509Context(a.ctx, a) // OnX509ContextWatchError was told
		if !retry.Sleep(a.ctx, retry.Spread(mostPause)) {
			return
		}
	}
}

// await waits until it is known whether a Workload API answers, for a while at most.
func await(heard <-chan struct{}) {
	timer := time.NewTimer(firstWait)
	defer timer.Stop()
	select {
	case <-heard:
	case <-timer.C:
	}
}

// close follows the API no longer.
func (a *api) close() {
	a.stop()
	_ = a.client.Close() // nothing is written
	a.wg.Wait()
	if a.expiry != nil {
		a.expiry.Stop()
	}
}

// OnX509ContextUpdate implements workloadapi.X509ContextWatcher. Of several identities the first one
// is the relay's (SPIFFE Workload API, 5.3).
func (a *api) OnX509ContextUpdate(c *workloadapi.X509Context) {
	svid := c.DefaultSVID()
	now := &said{cert: certificateOf(svid), domain: svid.ID.TrustDomain(), bundles: c.Bundles}
	a.said.Store(now)
	a.once.Do(func() { close(a.heard) })
	a.told = ""
	if a.expiry != nil {
		a.expiry.Stop()
	}
	a.expiry = time.AfterFunc(time.Until(now.cert.Leaf.NotAfter), a.of.panics.Func(logs.PartBackground, func() { a.expired(now) }))
	a.of.observer.WorkloadAnswered()
	a.of.log.Info("the SPIFFE Workload API gave the relay a certificate", "socket", a.address,
		"spiffe_id", svid.ID.String(), "expires", now.cert.Leaf.NotAfter, "bundles", c.Bundles.Len())
}

// OnX509ContextWatchError implements workloadapi.X509ContextWatcher.
func (a *api) OnX509ContextWatchError(err error) {
	if a.ctx.Err() != nil {
		return // nobody uses it any more
	}
	next := *a.said.Load()
	next.away = true
	denied := status.Code(err) == codes.PermissionDenied
	if denied {
		next.cert = nil
	}
	if next.cert == nil {
		next.why = err
	}
	a.said.Store(&next)
	a.once.Do(func() { close(a.heard) })
	a.of.observer.WorkloadFailed()
	if err.Error() == a.told {
		return
	}
	a.told = err.Error()
	log := a.of.log.With("socket", a.address, "error", err)
	switch {
	case next.cert != nil:
		log.Warn("the SPIFFE Workload API does not answer: the relay keeps its certificate until it expires", "expires", next.cert.Leaf.NotAfter)
	case denied:
		log.Error("the SPIFFE Workload API has no identity for the relay: TLS handshakes fail")
	default:
		log.Error("the SPIFFE Workload API does not answer: TLS handshakes fail until it gives a certificate")
	}
}

// expired tells of a certificate that expired before there was another one.
func (a *api) expired(which *said) {
	if a.said.Load().cert == which.cert {
		a.of.log.Error("the relay's certificate has expired, and the SPIFFE Workload API gives no other: TLS handshakes fail",
			"socket", a.address, "expired", which.cert.Leaf.NotAfter)
	}
}

// certificateOf is an SVID as crypto/tls has it.
func certificateOf(svid *x509svid.SVID) *tls.Certificate {
	cert := &tls.Certificate{PrivateKey: svid.PrivateKey, Leaf: svid.Certificates[0]}
	for _, c := range svid.Certificates {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert
}
