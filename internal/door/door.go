package door

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/excerpt"
)

const (
	// pause is how long a door counts what it said, from the first on.
	pause = time.Minute
	// maxLines is how many clients are worth a line each in that time, of those that are
	// turned away for the same thing.
	maxLines = 16
	// maxShown bounds what is logged of a client's words, in bytes.
	maxShown = 200
)

// Observer is told of clients that are turned away. Its methods may be called from any
// goroutine and must not block.
type Observer interface {
	// HandshakeFailed tells that a client's TLS handshake came to nothing.
	HandshakeFailed(reason Reason)
	// MethodUnknown tells that a client called a gRPC method that there is not.
	MethodUnknown()
	// Unverified tells that a client may not present its node, by a rule of access.verify.
	Unverified(rule string)
	// IdentityEnded tells that a client's certificate does not count any more.
	IdentityEnded(reason string)
	// AdminRefused tells that the admin port refused a request.
	AdminRefused(reason AdminReason)
	// TokenRefused tells that a client's bearer token is refused.
	TokenRefused(reason string)
}

// Door turns clients away. Its methods may be called from any goroutine.
type Door struct {
	log      *slog.Logger
	observer Observer

	handshakes, methods, nodes, identities, tokens, admin lines
}

// New makes a door. Close must be called.
func New(log *slog.Logger, observer Observer) *Door {
	d := &Door{log: log, observer: observer}
	d.handshakes.end = func(left int) {
		log.Warn("more TLS handshakes of clients failed than the log has", "left_out", left, "within", pause)
	}
	d.methods.end = func(left int) {
		log.Warn("clients called methods that the relay does not have more often than the log says", "left_out", left, "within", pause)
	}
	d.nodes.end = func(left int) {
		log.Warn("clients presented nodes that access.verify refuses more often than the log says", "left_out", left, "within", pause)
	}
	d.identities.end = func(left int) {
		log.Warn("more identities of clients ended than the log has", "left_out", left, "within", pause)
	}
	d.admin.end = func(left int) {
		log.Warn("the admin port refused more requests than the log has", "left_out", left, "within", pause)
	}
	d.tokens.end = func(left int) {
		log.Warn("more bearer tokens of clients were refused than the log has", "left_out", left, "within", pause)
	}
	return d
}

// Close says what the log lacks.
func (d *Door) Close() {
	d.handshakes.close()
	d.methods.close()
	d.nodes.close()
	d.identities.close()
	d.admin.close()
	d.tokens.close()
}

// Guard gives credentials whose failed handshakes the door hears of; nil for nil.
func (d *Door) Guard(creds credentials.TransportCredentials) credentials.TransportCredentials {
	if creds == nil {
		return nil
	}
	return guarded{creds, d}
}

// handshake notes one that came to nothing. Probes of ports come every few seconds and are
// worth no warning.
func (d *Door) handshake(from, text string) {
	reason, level := reasonOf(text), slog.LevelDebug
	d.observer.HandshakeFailed(reason)
	if reason != Closed {
		level = d.handshakes.level()
	}
	d.log.Log(context.Background(), level, "a client's TLS handshake failed",
		"peer", excerpt.Head(from, maxShown), "reason", string(reason), "error", excerpt.Head(text, maxShown))
}

// Unproxied notes a connection that does not begin with a PROXY header, where one is asked for.
func (d *Door) Unproxied(from, text string) {
	d.observer.HandshakeFailed(NoProxy)
	d.log.Log(context.Background(), d.handshakes.level(), "a connection is refused", "peer", excerpt.Head(from, maxShown), "reason", string(NoProxy), "error", text)
}

// Unknown is the grpc.StreamHandler for methods that there are not.
func (d *Door) Unknown(_ any, g grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(g)
	method = excerpt.Head(method, maxShown)
	from := ""
	if p, ok := peer.FromContext(g.Context()); ok {
		from = p.Addr.String()
	}
	d.observer.MethodUnknown()
	d.log.Log(g.Context(), d.methods.level(), "a client called a method that the relay does not have",
		"peer", from, "method", method)
	return status.Errorf(codes.Unimplemented, "this relay has no method %s: it serves the discovery services of Envoy's API", method)
}

// Unverified is a client that may not present its node (ACC-5).
type Unverified struct {
	From, Identity string // its address; its SPIFFE ID, or the subject of its certificate
	Node           string // the node's id
	Rule, Reason   string // the rule of access.verify, and what is false, or fails
}

// Unverified notes a client that is refused.
func (d *Door) Unverified(u *Unverified) {
	d.observer.Unverified(u.Rule)
	d.log.Log(context.Background(), d.nodes.level(), "access.verify refuses a client's node",
		"peer", excerpt.Head(u.From, maxShown), "identity", excerpt.Head(u.Identity, maxShown), "node", excerpt.Head(u.Node, maxShown),
		"rule", u.Rule, "reason", excerpt.Head(u.Reason, maxShown))
}

// IdentityEnded notes a client whose certificate does not count any more (ACC-1). from is its
// address, who its SPIFFE ID or the subject of its certificate.
func (d *Door) IdentityEnded(from, who, reason string) {
	d.observer.IdentityEnded(reason)
	d.log.Log(context.Background(), d.identities.level(), "a client's certificate does not count any more",
		"peer", excerpt.Head(from, maxShown), "identity", excerpt.Head(who, maxShown), "reason", reason)
}

// TokenEnded notes a client whose bearer token does not count any more (ACC-1). who is its subject.
func (d *Door) TokenEnded(from, who, reason string) {
	d.observer.IdentityEnded("token_" + reason)
	d.log.Log(context.Background(), d.identities.level(), "a client's bearer token does not count any more",
		"peer", excerpt.Head(from, maxShown), "identity", excerpt.Head(who, maxShown), "reason", reason)
}

// TokenRefused notes a client whose bearer token is refused (ACC-1). Nothing of the token is in the
// log: what it says of itself is not verified.
func (d *Door) TokenRefused(from, reason string) {
	d.observer.TokenRefused(reason)
	d.log.Log(context.Background(), d.tokens.level(), "a client's bearer token is refused",
		"peer", excerpt.Head(from, maxShown), "reason", reason)
}

// HTTPLog is what an HTTP server logs to: the door hears of handshakes, and what else clients
// do to their connections is nothing to warn of.
func (d *Door) HTTPLog() slog.Handler { return httpLog{d.log.Handler(), d} }

// httpLog reads what net/http logs.
type httpLog struct {
	slog.Handler

	door *Door
}

// Enabled implements slog.Handler: handshakes count whatever the level.
func (httpLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l httpLog) Handle(ctx context.Context, r slog.Record) error {
	if failed, ok := strings.CutPrefix(r.Message, "http: TLS handshake error from "); ok {
		from, text, _ := strings.Cut(failed, ": ")
		l.door.handshake(from, text)
		return nil
	}
	l.door.log.DebugContext(ctx, "HTTP server", "error", excerpt.Head(r.Message, maxShown))
	return nil
}

// guarded are transport credentials with a door.
type guarded struct {
	credentials.TransportCredentials

	door *Door
}

// ServerHandshake implements credentials.TransportCredentials.
func (g guarded) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := g.TransportCredentials.ServerHandshake(c)
	if err != nil {
		g.door.handshake(c.RemoteAddr().String(), err.Error())
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (g guarded) Clone() credentials.TransportCredentials {
	return guarded{g.TransportCredentials.Clone(), g.door}
}

// lines bounds how many lines of one kind the log has in a minute.
type lines struct {
	end func(left int) // tells what the log lacks of a minute; never of 0

	mu    sync.Mutex // guards what follows
	said  int        // of the minute that runs
	timer *time.Timer
}

// level is the level of the next line.
func (l *lines) level() slog.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		l.timer = time.AfterFunc(pause, l.close)
	}
	if l.said++; l.said > maxLines {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// close ends the minute.
func (l *lines) close() {
	l.mu.Lock()
	left := l.said - maxLines
	if l.timer != nil {
		l.timer.Stop()
	}
	l.said, l.timer = 0, nil
	l.mu.Unlock()
	if left > 0 {
		l.end(left)
	}
}
