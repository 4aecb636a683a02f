package credentials

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/retry"
)

const (
	// fetchTimeout bounds how long a Workload API may take to issue a token.
	fetchTimeout = 5 * time.Second
	// leastPause is the shortest time between two tokens.
	leastPause = time.Second
)

// WorkloadTokens says which tokens one side of connections shows (ACC-6).
type WorkloadTokens struct {
	Sources *Workloads
	// Socket is the address of the Workload API, as [WorkloadParty] has it.
	Socket string
	// Audiences are those for whom the tokens are, at least one.
	Audiences []string
}

// fetcher issues tokens: a client of a Workload API.
type fetcher interface {
	FetchJWTSVID(ctx context.Context, params jwtsvid.Params) (*jwtsvid.SVID, error)
	Close() error
}

// WorkloadToken is a bearer token of the relay, a JWT-SVID, which is replaced before it expires. Errors and logs
// never quote it. Its methods may be called from any goroutine.
type WorkloadToken struct {
	// Immutable after open.
	of      *Workloads
	address string
	params  jwtsvid.Params
	from    fetcher
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	wg      sync.WaitGroup

	issued atomic.Pointer[issued]
	heard  chan struct{} // closed when the API answered, or failed to, for the first time
	once   sync.Once

	// Owned by the goroutine of run.
	told    string // the reason that was logged last; "": the API gives tokens
	expired bool   // the log says that the token has expired
}

// issued is what a Workload API said of tokens last. It does not change.
type issued struct {
	token, before string // "": none yet, or it was taken away; the one that it replaced
	expires       time.Time

	away bool  // the API does not answer now, or has no identity for the relay
	why  error // there is no token
}

// Open begins to use the Workload API, which need not answer: it is waited for two seconds at most. The
// error says what is wrong with b. The WorkloadToken must be closed.
func (b *WorkloadTokens) Open() (*WorkloadToken, error) {
	if len(b.Audiences) == 0 {
		return nil, errors.New("spiffe: a token without an audience is for nobody")
	}
	address, err := addressOf(b.Socket)
	if err != nil {
		return nil, fmt.Errorf("spiffe: Workload API: %w", err)
	}
	client, err := dial(context.Background(), address)
	if err != nil {
		return nil, fmt.Errorf("spiffe: Workload API: %w", err)
	}
	t := b.open(address, client)
	await(t.heard)
	return t, nil
}

func (b *WorkloadTokens) open(address string, from fetcher) *WorkloadToken {
	t := &WorkloadToken{
		of: b.Sources, address: address, from: from, heard: make(chan struct{}),
		params: jwtsvid.Params{Audience: b.Audiences[0], ExtraAudiences: b.Audiences[1:]},
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.issued.Store(&issued{why: errUnanswered, away: true})
	t.of.follow(t)
	t.wg.Go(func() { t.of.panics.Loop(t.ctx, logs.PartBackground, t.run) })
	return t
}

// Token gives the token. The error says why there is none: the Workload API has given none yet, has taken
// it away, or it has expired.
func (t *WorkloadToken) Token() (string, error) {
	now := t.issued.Load()
	switch {
	case now.token == "":
		return "", fmt.Errorf("the SPIFFE Workload API at %s gives the relay no token: %w", t.address, now.why)
	case !time.Now().Before(now.expires):
		return "", fmt.Errorf("the relay's token of the SPIFFE Workload API at %s expired at %s",
			t.address, now.expires.UTC().Format(time.RFC3339))
	}
	return now.token, nil
}

// Lately returns the token and the one that it replaced, as far as there are: what a server quotes may
// be either.
func (t *WorkloadToken) Lately() []string {
	now := t.issued.Load()
	var all []string
	for _, token := range []string{now.token, now.before} {
		if token != "" {
			all = append(all, token)
		}
	}
	return all
}

// Close ends the use of the Workload API.
func (t *WorkloadToken) Close() {
	t.of.unfollow(t)
	t.stop()
	_ = t.from.Close() // nothing is written
	t.wg.Wait()
}

// run has tokens issued until Close: the next one after half of the time that the last one lasts, so
// that an API may be away for the other half.
func (t *WorkloadToken) run() {
	tries := retry.Backoff{Base: firstPause, Max: mostPause}
	for {
		pause := tries.Next()
		if svid, err := t.fetch(); err != nil {
			if t.ctx.Err() != nil {
				return
			}
			t.failed(err)
		} else {
			t.take(svid)
			tries.Reset()
			pause = max(leastPause, retry.Spread(time.Until(svid.Expiry)/2))
		}
		t.once.Do(func() { close(t.heard) })
		if !retry.Sleep(t.ctx, pause) {
			return
		}
	}
}

// fetch has a token issued for the relay's first identity.
func (t *WorkloadToken) fetch() (*jwtsvid.SVID, error) {
	ctx, cancel := context.WithTimeout(t.ctx, fetchTimeout)
	defer cancel()
	return t.from.FetchJWTSVID(ctx, t.params)
}

// take puts a token in the place of the last one.
func (t *WorkloadToken) take(svid *jwtsvid.SVID) {
	last := t.issued.Load()
	next := &issued{token: svid.Marshal(), before: last.token, expires: svid.Expiry}
	if next.token == last.token { // the API has no newer one
		next.before = last.before
	}
	t.issued.Store(next)
	t.of.observer.WorkloadAnswered()
	log := t.of.log.Debug
	if last.away || last.token == "" {
		log = t.of.log.Info
	}
	log("the SPIFFE Workload API gave the relay a token", "socket", t.address, "spiffe_id", svid.ID.String(),
		"audiences", svid.Audience, "expires", svid.Expiry)
	t.told, t.expired = "", false
}

// failed keeps the last token, unless the API says that the relay has no identity.
func (t *WorkloadToken) failed(err error) {
	next := *t.issued.Load()
	next.away = true
	denied := status.Code(err) == codes.PermissionDenied
	if denied && next.token != "" {
		next.token, next.before = "", next.token
	}
	if next.token == "" {
		next.why = err
	}
	t.issued.Store(&next)
	t.of.observer.WorkloadFailed()
	log := t.of.log.With("socket", t.address, "error", err)
	if next.token != "" && !t.expired && !time.Now().Before(next.expires) {
		t.expired = true
		log.Error("the relay's token has expired, and the SPIFFE Workload API gives no other: upstreams are not reached", "expired", next.expires)
	}
	if err.Error() == t.told {
		return
	}
	t.told = err.Error()
	switch {
	case t.expired: // the log has said so
	case next.token != "":
		log.Warn("the SPIFFE Workload API gives no new token: the relay keeps its token until it expires", "expires", next.expires)
	case denied:
		log.Error("the SPIFFE Workload API has no identity for the relay: upstreams are not reached without a token")
	default:
		log.Error("the SPIFFE Workload API gives the relay no token: upstreams are not reached until it does")
	}
}
