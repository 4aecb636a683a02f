package resolve

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/ack"
)

// Upstream is a configured upstream, as far as names are concerned.
type Upstream struct {
	Name string
	// Of tells upstreams of one name apart, one of which has taken the place of the other
	// (Resolver.Renew). It is comparable, and may be nil.
	Of any
}

// identity is what a tap is of.
type identity struct {
	name string
	of   any
}

func (u Upstream) identity() identity { return identity{u.Name, u.Of} }

// Sources are the stores that names lead to. The Resolver calls them from its own
// goroutine only.
type Sources interface {
	// Upstream gives the upstream of an authority; false if nobody claims it (LOC-4).
	Upstream(authority string) (Upstream, bool)
	// Open gives an upstream's source of xdstp names. changed is called, from any
	// goroutine, after what Away says has changed; it does not block. An error says
	// that there can be none now.
	Open(upstream Upstream, changed func()) (Source, error)
}

// Source is one upstream's xdstp names. Its methods may be called from any goroutine,
// and do not block.
type Source interface {
	Store() *cache.Store
	// Away is since when the upstream has not been heard, though something is wanted of
	// it; zero while it is. open says that a stream stands all the same: a server has
	// nothing to say to one that resumed and missed nothing, so that it is not taken for
	// unreachable as long as the stream stands.
	Away() (since time.Time, open bool)
	// Tell tells what became of content of the store with a client (ACK-7).
	Tell(w ack.Outcome)
	// Close gives it back. The changed function is not called after it.
	Close()
}
