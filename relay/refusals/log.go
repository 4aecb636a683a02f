package refusals

import (
	"context"
	"log/slog"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// maxShown bounds what a client is told of its own words, in bytes.
const maxShown = 200

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

// Log notes the clients that are turned away. Its methods may be called from any goroutine.
type Log struct {
	log      *slog.Logger
	observer Observer
	audit    func(*Refusal)
}

// Refusal is one client that was turned away, for an audit. What is not known is empty.
type Refusal struct {
	What           string // handshake, proxy, method, verify, certificate, token, admin
	Address        string
	Identity, Node string
	Name           string // what was asked for
	Rule, Reason   string
}

// Audit has f called for each refusal, beside the log. It is to be called before the log is used.
func (l *Log) Audit(f func(*Refusal)) { l.audit = f }

func (l *Log) tell(r *Refusal) {
	if l.audit != nil {
		l.audit(r)
	}
}

// New makes a log of refusals. It logs each client: log bounds the lines, and shortens what is in them (LIM-4).
func New(log *slog.Logger, observer Observer) *Log { return &Log{log: log, observer: observer} }

// Guard gives credentials whose failed handshakes the log hears of; nil for nil.
func (l *Log) Guard(creds credentials.TransportCredentials) credentials.TransportCredentials {
	if creds == nil {
		return nil
	}
	return guarded{creds, l}
}

// handshake notes one that came to nothing. Probes of ports come every few seconds and are
// worth no warning.
func (l *Log) handshake(from, text string) {
	reason, level := reasonOf(text), slog.LevelWarn
	l.observer.HandshakeFailed(reason)
	if reason == Closed {
		level = slog.LevelDebug
	} else {
		l.tell(&Refusal{What: "handshake", Address: from, Reason: string(reason)})
	}
	l.log.Log(context.Background(), level, "a client's TLS handshake failed",
		"peer", from, "reason", string(reason), "error", text)
}

// Unproxied notes a connection that does not begin with a PROXY header, where one is asked for.
func (l *Log) Unproxied(from, text string) {
	l.observer.HandshakeFailed(NoProxy)
	l.tell(&Refusal{What: "proxy", Address: from, Reason: string(NoProxy)})
	l.log.Warn("a connection is refused", "peer", from, "reason", string(NoProxy), "error", text)
}

// Unknown is the grpc.StreamHandler for methods that there are not.
func (l *Log) Unknown(_ any, g grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(g)
	method = logs.Head(method, maxShown)
	from := ""
	if p, ok := peer.FromContext(g.Context()); ok {
		from = p.Addr.String()
	}
	l.observer.MethodUnknown()
	l.tell(&Refusal{What: "method", Address: from, Name: method})
	l.log.WarnContext(g.Context(), "a client called a method that the relay does not have",
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
func (l *Log) Unverified(u *Unverified) {
	l.observer.Unverified(u.Rule)
	l.tell(&Refusal{What: "verify", Address: u.From, Identity: u.Identity, Node: u.Node, Rule: u.Rule, Reason: logs.Head(u.Reason, maxShown)})
	l.log.Warn("access.verify refuses a client's node",
		"peer", u.From, "identity", u.Identity, "node", u.Node,
		"rule", u.Rule, "reason", logs.Head(u.Reason, maxShown))
}

// IdentityEnded notes a client whose certificate does not count any more (ACC-1). from is its
// address, who its SPIFFE ID or the subject of its certificate.
func (l *Log) IdentityEnded(from, who, reason string) {
	l.observer.IdentityEnded(reason)
	l.tell(&Refusal{What: "certificate", Address: from, Identity: who, Reason: reason})
	l.log.Warn("a client's certificate does not count any more",
		"peer", from, "identity", who, "reason", reason)
}

// TokenEnded notes a client whose bearer token does not count any more (ACC-1). who is its subject.
func (l *Log) TokenEnded(from, who, reason string) {
	l.observer.IdentityEnded("token_" + reason)
	l.tell(&Refusal{What: "token", Address: from, Identity: who, Reason: reason})
	l.log.Warn("a client's bearer token does not count any more",
		"peer", from, "identity", who, "reason", reason)
}

// TokenRefused notes a client whose bearer token is refused (ACC-1). Nothing of the token is in the
// log: what it says of itself is not verified.
func (l *Log) TokenRefused(from, reason string) {
	l.observer.TokenRefused(reason)
	l.tell(&Refusal{What: "token", Address: from, Reason: reason})
	l.log.Warn("a client's bearer token is refused",
		"peer", from, "reason", reason)
}

// HTTPLog is what an HTTP server logs to: the log hears of handshakes, and what else clients
// do to their connections is nothing to warn of.
func (l *Log) HTTPLog() slog.Handler { return httpLog{l.log.Handler(), l, false} }

// AdminHTTPLog is what the admin port's HTTP server logs to: nobody there is a client.
func (l *Log) AdminHTTPLog() slog.Handler { return httpLog{l.log.Handler(), l, true} }

// httpLog reads what net/http logs.
type httpLog struct {
	slog.Handler

	refusals *Log
	admin    bool
}

// Enabled implements slog.Handler: handshakes count whatever the level.
func (httpLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l httpLog) Handle(ctx context.Context, r slog.Record) error {
	if failed, ok := strings.CutPrefix(r.Message, "http: TLS handshake error from "); ok && !l.admin {
		from, text, _ := strings.Cut(failed, ": ")
		l.refusals.handshake(from, text)
		return nil
	}
	l.refusals.log.DebugContext(ctx, "HTTP server", "error", r.Message)
	return nil
}

// guarded are transport credentials with a log of refusals.
type guarded struct {
	credentials.TransportCredentials

	refusals *Log
}

// ServerHandshake implements credentials.TransportCredentials.
func (g guarded) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := g.TransportCredentials.ServerHandshake(c)
	if err != nil {
		g.refusals.handshake(c.RemoteAddr().String(), err.Error())
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (g guarded) Clone() credentials.TransportCredentials {
	return guarded{g.TransportCredentials.Clone(), g.refusals}
}
