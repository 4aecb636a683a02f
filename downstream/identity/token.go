package identity

import (
	"context"

	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
)

// SetTokens has bearer tokens verified of clients that come through the listener, and gives what
// verified them before. With nil the relay reads no tokens.
func (l *Listener) SetTokens(v *credentials.Verifier) (before *credentials.Verifier) {
	return l.tokens.Swap(v)
}

// Tokens gives what verifies bearer tokens; nil: nothing does.
func (l *Listener) Tokens() *credentials.Verifier { return l.tokens.Load() }

type tokenKey struct{}

// WithToken gives the context of a stream or a poll with the verified token of its client.
func WithToken(ctx context.Context, t *credentials.Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, t)
}

// Caller is who opened a stream, or polls.
type Caller struct {
	Client *Client            // nil: the connection came through no Listener
	Token  *credentials.Token // nil: there is none
}

// CallerOf gives the caller of a stream or a poll, by its context.
func CallerOf(ctx context.Context) Caller {
	t, _ := ctx.Value(tokenKey{}).(*credentials.Token)
	return Caller{ClientOf(ctx), t}
}

// Stream gives a stream with another context, such as that of [WithToken].
func Stream(ctx context.Context, g grpc.ServerStream) grpc.ServerStream { return stream{g, ctx} }

type stream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // because grpc.ServerStream has it so
}

// Context implements grpc.ServerStream.
func (s stream) Context() context.Context { return s.ctx }
