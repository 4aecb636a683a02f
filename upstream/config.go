package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Config describes one control plane of servers. Zero values mean the defaults.
type Config struct {
	// Name is what configuration, logs and metrics call it.
	Name string
	// Endpoints are in order of priority (LOC-6). Those of one element are of the same
	// priority, and the scopes spread over them: gRPC targets, or "host:port" for REST. A host
	// that is a name stands for all its addresses, and is looked up again after a failure, and
	// at least every 30 seconds.
	Endpoints [][]string
	// APIType is the variant of the protocol that it speaks; "" means AggregatedDeltaGRPC.
	APIType APIType
	// FullState are the types of which a state-of-the-world response is always
	// complete, so that everything can be asked for in the form that every server
	// knows (SUB-2); nil means keyer.FullStateTypes. The Store must be told the same.
	FullState map[string]bool
	// TLS says how to connect; nil means in plain text.
	TLS *credentials.TLSClientConfig

	// Credentials go with every stream, or as HTTP headers with every poll (ACC-6).
	Credentials Credentials

	// MaxReceiveSize bounds a response, in bytes.
	MaxReceiveSize int
	// MaxRequestSize bounds a request, in bytes: longer subscriptions are split, or
	// lose the names without a subscriber and then the newest (RES-17), longer versions are left out (RES-14). Of
	// a poll it bounds the names.
	MaxRequestSize int
	// ConnectTimeout bounds how long it may take to open a stream, or to connect for a poll.
	ConnectTimeout time.Duration
	Keepalive      Keepalive
	Backoff        Backoff
	// FailbackInterval is how often, give or take a quarter, a session on a lower
	// endpoint looks whether a better one is back (LOC-6).
	FailbackInterval time.Duration
	Nack             Nack
	Poll             Poll
	// TrustLists has the lists of a server of the state of the world count as they are: it is not asked, on a stream
	// of its own, for names that were added and that it leaves unanswered, nor whether resources that a list lacks are gone.
	TrustLists bool
	// Wildcard is how an incremental server is asked for the wildcard of a type.
	Wildcard WildcardForm
	// Outages is told whether the control plane can be reached. Given to the next Upstream it
	// keeps that knowledge; nil means one of the Upstream's own.
	Outages *Outages
	// Batch is how long names of a type that follow others on a stream are gathered
	// before they are written (UPS-3). The first ones are written at once.
	Batch time.Duration

	// Logger is for operators; nil means none.
	Logger *slog.Logger
	Dial   Dial
}

// Dial is for tests and embedders. Resolver looks up names of endpoints; nil means the
// system's. Connect connects to an address, for streams and for polls; nil means over TCP.
// Options are added to the upstream's own gRPC options.
type Dial struct {
	Resolver Resolver
	Connect  func(ctx context.Context, network, address string) (net.Conn, error)
	Options  []grpc.DialOption
}

// Credentials are what servers are shown beside a client certificate (ACC-6). They are never logged. A
// bearer token goes beside Metadata as "authorization". TokenFile is its file; empty: none. SPIFFE says
// which Workload API issues it instead; nil: none. A stream, or poll, has the token that is there when it
// begins, and fails if there is none.
type Credentials struct {
	Metadata  map[string][]string
	TokenFile string
	SPIFFE    *credentials.WorkloadTokens
}

// Keepalive is for gRPC connections: Time is how long one may be silent before it is
// pinged, and Timeout how long the answer may take, and acknowledgements of TCP. An
// endpoint that ends a connection for too many pings is pinged less often from then on
// (UPS-1). Response is how long any server may leave a request unanswered that it must answer
// (SUR-2). If it is negative it may do so for ever, and a better endpoint is returned to as
// soon as it takes a connection.
type Keepalive struct{ Time, Timeout, Response time.Duration }

// Backoff bounds delays: Base the delay before the first new attempt, and each further one
// has twice the bound up to Max (OPS-2). While a server says that it has no resources left
// the bound grows to 30 seconds (UPS-2).
type Backoff struct{ Base, Max time.Duration }

// Nack is for streams (ACK-7, Session.Tell). Wait is how long the ACK of a response waits for clients
// to accept or reject its content, from when the first client was sent that; 0 acknowledges at once.
// RelayWait is the same if that client is a relay, which waits for clients of its own; 0 means Wait. The
// response is rejected if the Share (0 to 1) of the clients that were sent it reject it, at least one.
type Nack struct {
	Wait, RelayWait time.Duration
	Share           float64
}

// wait is how long an ACK waits from when the first client was sent the content.
func (n Nack) wait(relay bool) time.Duration {
	if relay {
		return cmp.Or(n.RelayWait, n.Wait)
	}
	return n.Wait
}

// Poll is for REST. Interval is the time from the end of a poll to the next one, give or
// take a quarter (REST-3); Timeout is how long one may take. A server may hold it.
// AbsentAfter is the Store's cache.Source.Absent, so that no clock is stopped
// before it may have run out; 0 stands for the least that is of use, a second.
type Poll struct{ Interval, Timeout, AbsentAfter time.Duration }

// The defaults of Config.
const (
	DefaultMaxReceiveSize   = 64 << 20
	DefaultMaxRequestSize   = 4<<20 - 64<<10 // what servers accept by default, with room to spare
	DefaultConnectTimeout   = 10 * time.Second
	DefaultKeepaliveTime    = 10 * time.Second
	DefaultKeepaliveTimeout = 10 * time.Second
	DefaultPollInterval     = 10 * time.Second
	DefaultPollTimeout      = time.Minute
	DefaultBackoffBase      = 500 * time.Millisecond
	DefaultBackoffMax       = 5 * time.Second
	DefaultFailbackInterval = 30 * time.Second
	DefaultBatch            = 5 * time.Millisecond
)

func (c Config) withDefaults() (Config, error) {
	c.APIType = cmp.Or(c.APIType, AggregatedDeltaGRPC)
	c.Wildcard = cmp.Or(c.Wildcard, WildcardAuto)
	if err := c.APIType.check(); err != nil && c.APIType != REST {
		return c, err
	}
	if len(c.Endpoints) == 0 || slices.ContainsFunc(c.Endpoints, func(equal []string) bool { return len(equal) == 0 }) {
		return c, errors.New("no endpoints")
	}
	if c.Nack.Wait < 0 || c.Nack.RelayWait < 0 || c.Nack.Share < 0 || c.Nack.Share > 1 {
		return c, errors.New("nack wait is negative, or the share is not from 0 to 1")
	}
	if c.FullState == nil {
		c.FullState = keyer.TypeSet(keyer.FullStateTypes())
	}
	c.Keepalive.Response = max(0, cmp.Or(c.Keepalive.Response, DefaultResponseTimeout))
	err := errors.Join(
		setting("connect timeout", &c.ConnectTimeout, DefaultConnectTimeout),
		setting("keepalive time", &c.Keepalive.Time, DefaultKeepaliveTime),
		setting("keepalive timeout", &c.Keepalive.Timeout, DefaultKeepaliveTimeout),
		setting("back-off base", &c.Backoff.Base, DefaultBackoffBase),
		setting("back-off maximum", &c.Backoff.Max, DefaultBackoffMax),
		setting("failback interval", &c.FailbackInterval, DefaultFailbackInterval),
		setting("poll interval", &c.Poll.Interval, DefaultPollInterval),
		setting("poll timeout", &c.Poll.Timeout, DefaultPollTimeout),
		setting("time of absence", &c.Poll.AbsentAfter, 0),
		setting("batch", &c.Batch, DefaultBatch),
		setting("receive size", &c.MaxReceiveSize, DefaultMaxReceiveSize),
		setting("request size", &c.MaxRequestSize, DefaultMaxRequestSize),
	)
	c.Backoff.Max = max(c.Backoff.Max, c.Backoff.Base)
	c.Logger = loggerOf(c.Logger, c.Name)
	return c, err
}

// setting gives a value its default. Negative values make no sense for any.
func setting[T int | time.Duration](name string, value *T, def T) error {
	if *value < 0 {
		return fmt.Errorf("%s is negative", name)
	}
	*value = cmp.Or(*value, def)
	return nil
}

// loggerOf is the logger of an upstream; without one nothing is logged.
func loggerOf(log *slog.Logger, upstream string) *slog.Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return log.With("upstream", upstream)
}

// UserAgent is how the relay announces itself to servers.
func UserAgent() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return wire.RelayIdentifier + version
}
