package upstream

import (
	"cmp"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
)

// Config describes one control plane. Zero values mean the defaults.
type Config struct {
	// Name is what configuration, logs and metrics call it.
	Name string
	// Endpoints are gRPC targets ("host:port") in order of priority (LOC-6).
	Endpoints []string
	// APIType is what it speaks; "" means AggregatedDeltaGRPC.
	APIType APIType
	// FullState are the types of which a state-of-the-world response is always
	// complete, so that everything can be asked for in the form that every server
	// knows (SUB-2); nil means keyer.FullStateTypes. The Store must be told the same.
	FullState map[string]bool
	// TLS says how to connect; nil means in plain text.
	TLS *tlsfiles.ClientConfig

	// Metadata goes with every stream (ACC-6). It is never logged.
	Metadata map[string][]string

	// MaxReceiveSize bounds a response, in bytes.
	MaxReceiveSize int
	// MaxRequestSize bounds a request, in bytes: longer subscriptions are split, or
	// lose the names that nobody watches (RES-17), longer versions left out (RES-14).
	MaxRequestSize int
	// ConnectTimeout bounds how long it may take to open a stream.
	ConnectTimeout time.Duration
	// KeepaliveTime is how long a connection may be silent before it is pinged,
	// and KeepaliveTimeout how long the answer may take, and acknowledgements of TCP. An
	// endpoint that ends a connection for too many pings is pinged less often from then on
	// (UPS-1).
	KeepaliveTime, KeepaliveTimeout time.Duration
	// BackoffBase bounds the delay before the first new attempt, and each further
	// one has twice the bound up to BackoffMax (OPS-2). While a server says that it has no
	// resources left the bound grows to 30 seconds (UPS-2).
	BackoffBase, BackoffMax time.Duration
	// FailbackInterval is how often, give or take a quarter, a session on a lower
	// endpoint looks whether a better one is back (LOC-6).
	FailbackInterval time.Duration
	// NackWait is how long the ACK of a response waits for clients to accept or reject what
	// it brought, from when the first of them was sent that, and twice that in all (ACK-7,
	// Session.Tell); 0 acknowledges at once. NackAcks is how many clients have to accept it;
	// DefaultNackAcks if it is zero.
	NackWait time.Duration
	NackAcks int
	// Outages is told whether the control plane can be reached. Who gives it keeps what is
	// known when another Upstream takes over; nil means one of the Upstream's own.
	Outages *Outages
	// Batch is how long names of a type that follow others on a stream are gathered
	// before they are written (UPS-3). The first ones are written at once.
	Batch time.Duration

	// Logger gets what an operator should know; nil means none.
	Logger *slog.Logger
	// DialOptions are added to the upstream's own, for tests and embedders.
	DialOptions []grpc.DialOption
}

func (c Config) withDefaults() (Config, error) {
	if c.APIType == "" {
		c.APIType = AggregatedDeltaGRPC
	}
	if err := c.APIType.check(); err != nil {
		return c, err
	}
	if c.NackWait < 0 || c.NackAcks < 0 {
		return c, errors.New("nack wait or nack acks is negative")
	}
	c.NackAcks = cmp.Or(c.NackAcks, DefaultNackAcks)
	err := c.common().withDefaults(
		setting[time.Duration]{"keepalive time", &c.KeepaliveTime, DefaultKeepaliveTime},
		setting[time.Duration]{"keepalive timeout", &c.KeepaliveTimeout, DefaultKeepaliveTimeout},
	)
	return c, err
}

// common are the settings that all servers have.
func (c *Config) common() common {
	return common{
		name: c.Name, endpoints: c.Endpoints, fullState: &c.FullState,
		receive: &c.MaxReceiveSize, request: &c.MaxRequestSize,
		connect: &c.ConnectTimeout, backoffBase: &c.BackoffBase, backoffMax: &c.BackoffMax,
		failback: &c.FailbackInterval, batch: &c.Batch, logger: &c.Logger,
	}
}

// userAgent is how the relay announces itself to servers.
func userAgent() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return "xdsrelay/" + version
}
