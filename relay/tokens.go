package relay

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/relay/load"
)

// tokenCheck is how often the tokens of open streams are looked at: with the tolerance between
// clocks, a stream ends within half a minute after its token (ACC-1).
const tokenCheck = 15 * time.Second

// authorization is the gRPC metadata with a client's token.
const authorization = "authorization"

// bearers judges the bearer tokens of clients.
type bearers struct {
	relay *Relay
	every time.Duration
}

// verifier makes what verifies the tokens of a listener's clients; nil if the configuration has no
// issuers.
func (t *bearers) verifier(l config.Listener, refresh config.Duration) (*credentials.Verifier, error) {
	if len(l.Identity.JWT) == 0 {
		return nil, nil //nolint:nilnil // because a nil Verifier trusts nobody
	}
	c := credentials.VerifierConfig{
		Refresh: refresh.Std(), Panics: t.relay.panics,
		Report: func(issuer string, err error) {
			if err != nil {
				t.relay.log.Error("the relay could not get the keys of an issuer of tokens, the old ones stay in use", "listener", l.Name, "issuer", issuer, "error", err)
			} else {
				t.relay.log.Info("the relay has the keys of an issuer of tokens again", "listener", l.Name, "issuer", issuer)
			}
		},
	}
	for _, i := range l.Identity.JWT {
		c.Trusts = append(c.Trusts, credentials.TokenIssuer{Issuer: i.Issuer, Audiences: i.Audiences, File: i.JWKSFile, URL: i.JWKSURL, CAFile: i.JWKSCAFile, MaxAge: i.JWKSMaxAge.Std()})
	}
	return credentials.NewVerifier(c)
}

// of verifies the token of a stream or a poll, if its listener has issuers and it has a token, and
// gives its context with the token. The error is a status.
func (t *bearers) of(ctx context.Context, from string, values []string) (context.Context, error) {
	client := identity.ClientOf(ctx)
	if client == nil {
		return ctx, nil
	}
	verifier := client.Listener.Tokens() // a reload may take it away
	if verifier == nil {
		return ctx, nil
	}
	raw, err := credentials.BearerToken(values)
	if err == nil && raw == "" {
		return ctx, nil
	}
	var token *credentials.Token
	if err == nil {
		token, err = verifier.Verify(ctx, raw, func(ctx context.Context) (func(), error) {
			turn, err := t.relay.admission.Token(ctx, load.From{Party: quota.Client{Address: quota.AddressOf(from)}, Connection: client})
			return turn.Done, err
		})
	}
	if bad, ok := errors.AsType[*credentials.TokenError](err); ok {
		t.relay.refusals.TokenRefused(from, string(bad.Reason))
		if bad.Reason == credentials.ReasonNoKeys {
			return ctx, status.Error(codes.Unavailable, bad.Error())
		}
		return ctx, unauthenticated(bad)
	}
	if err != nil {
		return ctx, admission{t.relay.admission, t.relay.metrics.Downstream()}.refuse(err)
	}
	return identity.WithToken(ctx, token), nil
}

// identified gives a stream whose context has the client's token, if it has one. The error is a status.
func (t *bearers) identified(g grpc.ServerStream) (_ grpc.ServerStream, err error) {
	defer t.relay.panics.Catch(logs.PartClient, func(e *logs.PanicError) { err = status.Error(codes.Internal, e.Error()) })
	values := metadata.ValueFromIncomingContext(g.Context(), authorization)
	if len(values) == 0 {
		return g, nil
	}
	ctx, err := t.of(g.Context(), addressOf(g.Context()), values)
	if err != nil {
		return nil, err
	}
	return identity.Stream(ctx, g), nil
}

// poll stands before the handler of polls.
func (t *bearers) poll(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := t.of(r.Context(), r.RemoteAddr, r.Header.Values("Authorization"))
		if err == nil {
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		answer := &restjson.StatusError{Code: http.StatusUnauthorized, Message: status.Convert(err).Message()}
		if status.Code(err) == codes.Unavailable {
			answer.Code = http.StatusServiceUnavailable
		}
		restjson.WriteError(w, answer)
	})
}

// judge judges the token of a stream or a poll again. The error is a status.
func (t *bearers) judge(by identity.Caller, from string) error {
	if by.Token == nil || by.Client == nil {
		return nil
	}
	err := by.Client.Listener.Tokens().Check(by.Token, time.Now())
	if ended, ok := errors.AsType[*credentials.TokenError](err); ok {
		t.relay.refusals.TokenEnded(from, by.Token.Subject, string(ended.Reason))
		return unauthenticated(ended)
	}
	return nil
}

// run judges the tokens of all streams until ctx ends. Polls are judged by who holds them.
func (t *bearers) run(ctx context.Context) {
	why := func(ctx context.Context) error { return t.judge(identity.CallerOf(ctx), addressOf(ctx)) }
	retry.Every(ctx, t.every, func(time.Time) {
		t.relay.server.End(why)
		t.relay.reports.End(why)
		t.relay.passage.End(why)
	})
}

// addressOf is the address of the client of a stream, for the log.
func addressOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
