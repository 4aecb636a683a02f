package credentials

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
)

// agentSaying issues tokens, or fails, or hangs. It counts how often it is asked.
type agentSaying struct {
	issuer *tokens.Issuer

	mu    sync.Mutex
	lasts time.Duration // a token; 0: it hangs until the end
	err   error
	asked []time.Time
}

func (a *agentSaying) set(lasts time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lasts, a.err = lasts, err
}

// times is when it was asked since the last call.
func (a *agentSaying) times() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	times := a.asked
	a.asked = nil
	return times
}

func (a *agentSaying) FetchJWTSVID(ctx context.Context, params jwtsvid.Params) (*jwtsvid.SVID, error) {
	a.mu.Lock()
	a.asked = append(a.asked, time.Now())
	lasts, err := a.lasts, a.err
	a.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case lasts == 0:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	audience := append([]string{params.Audience}, params.ExtraAudiences...)
	text := a.issuer.Token(tokens.Claims{"sub": "spiffe://own/relay", "aud": audience, "exp": time.Now().Add(lasts).Unix()})
	return jwtsvid.ParseInsecure(text, audience)
}

func (*agentSaying) Close() error { return nil }

// counts is an observer.
type counts struct{ answered, failed int }

func (c *counts) WorkloadAnswered() { c.answered++ }
func (c *counts) WorkloadFailed()   { c.failed++ }

// newToken opens a token of a fake Workload API, within a bubble.
func newToken(t *testing.T) (*agentSaying, *WorkloadToken, *strings.Builder) {
	t.Helper()
	a := &agentSaying{issuer: tokens.NewIssuer(t, "https://spire", "k")}
	log := new(strings.Builder)
	sources := NewWorkloads(slog.New(slog.NewTextHandler(log, nil)), new(counts), nil)
	return a, (&WorkloadTokens{Sources: sources, Audiences: []string{"xds", "dr"}}).open("unix:///agent", a), log
}

// pass lets time pass in a bubble, and what comes of it happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A token is replaced after about half of its time. While the API fails the last one stays, until it
// expires.
func TestToken_ACC6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, token, log := newToken(t)
		defer token.Close()
		if _, err := token.Token(); !errors.Is(err, errUnanswered) {
			t.Errorf("before the first word: %v", err)
		}
		synctest.Wait()
		if got := token.of.State(); got.Away != 1 || !got.Token.IsZero() {
			t.Errorf("before the first token: %+v", got)
		}
		// The call that hangs is given up.
		a.set(time.Minute, nil)
		pass(fetchTimeout + firstPause)
		if n := len(a.times()); n != 2 {
			t.Fatalf("asked %d times, want 2", n)
		}
		last, err := token.Token()
		for range 20 {
			var got string
			began := time.Now()
			for got = last; got == last && err == nil; got, err = token.Token() {
				pass(time.Second)
			}
			// Between three and five eighths of a minute, less what Unix time cuts off.
			if lasted := time.Since(began); err != nil || lasted < 21*time.Second || lasted > 39*time.Second {
				t.Fatalf("%v, after %v", err, lasted)
			}
			if now := token.of.State(); now.Away != 0 || time.Until(now.Token) < 57*time.Second {
				t.Fatalf("%+v", now)
			}
			if lately := token.Lately(); !slices.Equal(lately, []string{got, last}) {
				t.Errorf("%d tokens were shown lately, want this one and the last", len(lately))
			}
			if n := len(a.times()); n != 1 {
				t.Fatalf("asked %d times for one token", n)
			}
			last = got
		}
		if n := strings.Count(log.String(), "gave the relay a token"); n != 1 {
			t.Errorf("%d lines about tokens that come in time:\n%s", n, log)
		}

		a.set(0, status.Error(codes.Unavailable, "no agent"))
		pass(38 * time.Second)
		last, err = token.Token()
		if err != nil || token.of.State().Away != 1 {
			t.Errorf("the token goes before its time: %v", err)
		}
		pass(30 * time.Second)
		if got, err := token.Token(); err == nil || got != "" || !strings.Contains(err.Error(), "expired") {
			t.Errorf("an expired token: %q, %v", got, err)
		}
		if got := token.Lately(); got[0] != last {
			t.Error("a server may still quote the token that expired")
		}
		for _, line := range []string{"keeps its token until it expires", "token has expired"} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("%d lines %q, want 1:\n%s", n, line, log)
			}
		}
		for i, times := 1, a.times(); i < len(times); i++ {
			if pause := times[i].Sub(times[i-1]); pause > mostPause {
				t.Errorf("%v between two attempts", pause)
			}
		}

		a.set(time.Minute, nil)
		pass(mostPause)
		if got, err := token.Token(); err != nil || got == last {
			t.Errorf("after the API came back: %v", err)
		}
		if n := strings.Count(log.String(), "gave the relay a token"); n != 2 {
			t.Errorf("%d lines about tokens:\n%s", n, log)
		}
		for _, secret := range append(token.Lately(), last) {
			if strings.Contains(log.String(), secret) {
				t.Error("OPS-6: the log has a token")
			}
		}
	})
}

// A token that is issued for a short time, or long after its making, is not asked for without end.
func TestTokenShort_ACC6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, token, _ := newToken(t)
		defer token.Close()
		a.set(time.Second, nil)
		pass(fetchTimeout + firstPause)
		a.times()
		pass(time.Minute)
		if n := len(a.times()); n > 61 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

// An identity that is taken away takes the token with it.
func TestTokenDenied_ACC6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, token, log := newToken(t)
		defer token.Close()
		a.set(time.Minute, nil)
		pass(fetchTimeout + firstPause)
		before, err := token.Token()
		if err != nil {
			t.Fatal(err)
		}
		a.set(0, status.Error(codes.PermissionDenied, "no identity issued"))
		pass(40 * time.Second)
		if got, err := token.Token(); got != "" || status.Code(err) != codes.PermissionDenied {
			t.Errorf("%q, %v", got, err)
		}
		if got := token.Lately(); !slices.Equal(got, []string{before}) {
			t.Errorf("%d tokens were shown lately", len(got))
		}
		if !strings.Contains(log.String(), "no identity for the relay") {
			t.Errorf("the log has\n%s", log)
		}
	})
}
