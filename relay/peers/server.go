package peers

import (
	"context"
	"errors"
	"io"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// method is the one that peers call.
const method = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName

// Stores are the stores of a relay as its peers ask for them. Any goroutine may call the methods.
type Stores interface {
	// Find returns the store with an ID, and when its content was known to be current; nil if there
	// is none.
	Find(id string) (store *cache.Store, asOf time.Time)
	// Holds lists the upstreams that the relay has content of.
	Holds() []string
}

// Observer counts. Any goroutine may call its methods.
type Observer interface {
	// Asked is called after a peer was asked for the content of a store, Taken with the number of
	// resources that were taken from it.
	Asked(r Result)
	Taken(resources int)
	// Gave is called for each answer to a peer, with the number of resources in it.
	Gave(resources int)
	// Ignored is called for a marker of a client that may not set one.
	Ignored()
}

// Result is how a peer answered.
type Result string

// The results.
const (
	ResultContent Result = "content" // something of what was asked for
	ResultNothing Result = "nothing" // the peer lacks it too
	ResultIgnored Result = "ignored" // the peer does not let this relay ask
	ResultFailed  Result = "failed"  // no answer
)

// Results lists all.
func Results() []Result { return []Result{ResultContent, ResultNothing, ResultIgnored, ResultFailed} }

// Server answers peers.
type Server struct {
	ID          string                         // of this process
	Trusted     func(ctx context.Context) bool // whether the client of a stream may set a marker
	Stores      Stores
	Observer    Observer
	MessageSize func() int // responses stay below it, in bytes, unless one resource is larger
	MaxBytes    int        // of one exchange
	// End ends a stream from another goroutine, and reading and sending with it.
	End func(g grpc.ServerStream, err error)
}

// exchangeTime bounds an exchange, on both sides.
const exchangeTime = 30 * time.Second

var errTooLong = status.Errorf(codes.DeadlineExceeded, "an exchange between relays takes at most %s", exchangeTime)

// allowance is what an exchange may still carry, in bytes.
type allowance int

// take takes n bytes. The error is ErrTooLarge once there are none left.
func (a *allowance) take(n int) error {
	if *a -= allowance(n); *a < 0 {
		return ErrTooLarge
	}
	return nil
}

// Answer looks at a stream of which nothing has been read. exchange serves it if it has a peer's marker; else it is a client's. The
// error is the status of a stream that ends at once.
func (s *Server) Answer(g grpc.ServerStream) (exchange func(grpc.ServerStream) error, err error) {
	values := metadata.ValueFromIncomingContext(g.Context(), header)
	if len(values) == 0 {
		return nil, nil
	}
	return s.marked(g, values)
}

// errSelf ends a stream of the relay to itself: a name of peers.addresses stands for all replicas.
var errSelf = status.Error(codes.FailedPrecondition, "a relay is not its own peer")

// marked looks at a marker.
func (s *Server) marked(g grpc.ServerStream, values []string) (exchange func(grpc.ServerStream) error, err error) {
	var m Marker
	bad := decode(values, &m)
	if bad == nil && m.From == s.ID { // nobody else knows it
		if err := g.SendHeader(reply(&Reply{ID: s.ID})); err != nil {
			return nil, err
		}
		return nil, errSelf
	}
	if called, _ := grpc.MethodFromServerStream(g); bad != nil || called != method || !s.Trusted(g.Context()) {
		s.Observer.Ignored()
		return nil, g.SendHeader(reply(&Reply{ID: s.ID, Ignored: true}))
	}
	return func(g grpc.ServerStream) error { return s.answer(g, &m) }, nil
}

func reply(r *Reply) metadata.MD { return metadata.Pairs(header, encode(r)) }

// answer answers each request of a stream once, and ends it after the last one.
func (s *Server) answer(g grpc.ServerStream, m *Marker) error {
	r := Reply{ID: s.ID}
	var store *cache.Store
	if m.Store == "" {
		r.Holds = s.Stores.Holds()
	} else {
		var asOf time.Time
		store, asOf = s.Stores.Find(m.Store)
		r.Known, r.AsOf = store != nil, asOf.UnixNano()
	}
	if err := g.SendHeader(reply(&r)); err != nil || store == nil {
		return err
	}
	over := time.AfterFunc(exchangeTime, func() { s.End(g, errTooLong) })
	defer over.Stop()
	given, left := 0, allowance(s.MaxBytes)
	defer func() { s.Observer.Gave(given) }()
	for {
		var req wire.DeltaRequest
		switch err := g.RecvMsg(&req); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		n, err := s.give(g, store, &req, &left)
		req.Release()
		given += n
		if err != nil {
			return err
		}
	}
}

// give answers one request: with what the store has, and an error for each name that it lacks.
func (s *Server) give(g grpc.ServerStream, store *cache.Store, req *wire.DeltaRequest, left *allowance) (resources int, err error) {
	w := cache.PeerWants{TypeURL: req.TypeURL, Kind: cache.ByName, Names: req.Subscribe}
	for _, name := range w.Names {
		if err := left.take(len(name)); err != nil {
			return 0, err
		}
	}
	if len(w.Names) == 1 && w.Names[0] == cache.Wildcard {
		w.Kind = cache.WholeType
	}
	found, unknown := store.Peers().Known(w)
	now, limit := store.Now(), s.MessageSize()
	var b wire.Builder
	flush := func(more int) error {
		if b.Size() == 0 || b.Size()+more <= limit {
			return nil
		}
		if err := left.take(b.Size()); err != nil {
			return err
		}
		return g.SendMsg(b.Finish(req.TypeURL, "", req.Nonce))
	}
	for i := range found {
		f := &found[i]
		ttl := time.Duration(0)
		if !f.Deadline.IsZero() {
			if ttl = f.Deadline.Sub(now); ttl <= 0 {
				continue
			}
		}
		if err := flush(f.Resource.Size()); err != nil {
			return resources, err
		}
		if ttl > 0 {
			b.AddTTL(f.Resource, "", ttl)
		} else {
			b.Add(f.Resource)
		}
		resources++
	}
	for _, name := range unknown {
		if err := flush(len(name)); err != nil {
			return resources, err
		}
		b.AddError(wire.ResourceError{Name: name, Code: codes.NotFound}, name)
	}
	return resources, flush(limit)
}
