package downstream

import (
	"cmp"
	"hash/maphash"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// Defaults of Config.
const (
	DefaultMaxReceiveSize = 16 << 20
	DefaultMaxPolls       = 1 << 16
)

// Config says how a server treats its clients.
type Config struct {
	Limits

	Credentials    credentials.TransportCredentials // nil: plain text
	MaxReceiveSize int                              // bytes; larger requests are refused
	MaxPolls       int                              // at a time (OPS-5)
	DebugServices  bool                             // gRPC reflection and channelz
	GRPC           []grpc.ServerOption              // beside the server's own: keepalive, unknown methods
	// FullState are the types whose state-of-the-world responses are always complete
	// (RES-2), as in the stores; nil: keyer.FullStateTypes.
	FullState map[string]bool

	// Identifier is the relay's own part of the control plane identifier that clients see,
	// behind the control planes' parts (STR-10). "" leaves the part out.
	Identifier string

	Router   Router
	Observer Observer     // nil: no events
	Log      *slog.Logger // nil: no log; clients decide how many lines it has, which it has to bound itself (LIM-4)
}

// shared has the parts of a server that all streams and polls use.
type shared struct {
	// immutable
	safety   safety
	config   Config // without its Limits and Identifier, which may change
	observer Observer
	log      *slog.Logger
	seed     maphash.Seed
	codec    encoding.CodecV2

	limits     atomic.Pointer[Limits]
	identifier atomic.Pointer[string]
	unfinished *quota.Bounds // bytes of messages that clients have begun
	names      names
	lastID     atomic.Uint64
	plans      plans
	senders    *senders
	siblings   siblings
	comebacks  comebacks

	retirements retirements
	identified  func(g grpc.ServerStream) (grpc.ServerStream, error) // see Server.Identified; nil: none
	admission   Admission                                            // see Admit; nil: everybody joins
	passage     Passage                                              // see PassBy; nil: no stream is served 1:1
}

func newShared(c Config) *shared {
	c.MaxReceiveSize = cmp.Or(c.MaxReceiveSize, DefaultMaxReceiveSize)
	c.MaxPolls = cmp.Or(c.MaxPolls, DefaultMaxPolls)
	if c.FullState == nil {
		c.FullState = keyer.TypeSet(keyer.FullStateTypes())
	}
	s := &shared{config: c, observer: c.Observer, log: c.Log, seed: maphash.MakeSeed(), codec: wire.Codec(), senders: newSenders(), unfinished: quota.NewBounds(freeUnfinished), names: names{Bounds: quota.NewBounds(freeNames)}, retirements: retirements{since: make(map[uint64]time.Time)}}
	if s.observer == nil {
		s.observer = silent{}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.setLimits(c.Limits)
	s.identifier.Store(&c.Identifier)
	return s
}

// setLimits puts limits in force.
func (s *shared) setLimits(l Limits) {
	s.limits.Store(l.withDefaults())
	s.unfinished.Set(quota.Limit{Most: l.PerClient.UnfinishedBytes, Share: l.PerClient.Share})
	s.names.limit(l.PerClient)
}

// hash returns a hash of names. It depends on their order: a client that repeats a request
// repeats it exactly.
func (s *shared) hash(names []string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, name := range names {
		maphash.WriteComparable(&h, name)
	}
	return h.Sum64()
}

// unserved returns how a stream or a poll ends that no control plane can serve (ABS-2). open is true
// if that is about to be decided: until then the client is sent nothing.
func (s *shared) unserved(places []*delivery.Place, variant string) (open bool, err error) {
	cause, verdict := delivery.Outage(places)
	if verdict != delivery.Unserved {
		return verdict == delivery.Open, nil
	}
	s.observer.Unserved(variant)
	return false, status.Error(codes.Unavailable, cause)
}
