package downstream

import (
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mostGone is how many streams are remembered that ended, and goneFor for how long.
const (
	mostGone = 1000
	goneFor  = time.Hour
)

// Gone is a stream that ended, on the admin port.
type Gone struct {
	Status

	At     time.Time `json:"at"`
	Why    Why       `json:"why"`
	Code   string    `json:"code"`             // the status of the stream
	Reason string    `json:"reason,omitempty"` // its message
}

// Why is why a stream ended.
type Why string

// The reasons.
const (
	WhyClient    Why = "client"    // the client ended it, in good order or by a reset, or its connection broke
	WhyKeepalive Why = "keepalive" // the client answered no pings, or sent too many
	WhyAge       Why = "age"       // its connection had reached its greatest age
	WhyMoved     Why = "moved"     // the configuration changed where its resources come from
	WhyDrain     Why = "drain"     // the relay drains or stops, and closed the stream or its connection
	WhyRefused   Why = "refused"   // it asked for what it is not served, or beyond a limit
	WhyUnserved  Why = "unserved"  // nothing could be served to it
)

// departed remembers the streams that ended last.
type departed struct {
	mu  sync.Mutex
	all []Gone // a ring once it is full
	at  int    // of the oldest then
}

func (d *departed) add(x Gone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) < mostGone {
		d.all = append(d.all, x)
		return
	}
	d.all[d.at] = x
	d.at = (d.at + 1) % mostGone
}

// Gone lists the streams that ended within an hour, the last ones first. It remembers a thousand.
func (s *Server) Gone() []Gone {
	g := &s.gone
	g.mu.Lock()
	all := slices.Clone(g.all)
	g.mu.Unlock()
	all = slices.DeleteFunc(all, func(x Gone) bool { return time.Since(x.At) > goneFor })
	slices.SortFunc(all, func(a, b Gone) int { return b.At.Compare(a.At) })
	return all
}

// LastGone is when the last stream ended; zero: none did.
func (s *Server) LastGone() (at time.Time) {
	g := &s.gone
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.all {
		at = notify.Later(at, g.all[i].At)
	}
	return at
}

// ended is what is remembered of a stream that ended.
func (st *stream) ended(c *closing, err error) Gone {
	st.standing.mu.Lock()
	x := Gone{Status: st.standing.statusLocked(), At: time.Now()}
	st.standing.mu.Unlock()
	x.Variant, x.Service = st.variant.String(), st.variant.service.Name
	x.Code = status.Code(err).String()
	if err != nil {
		x.Reason = logs.Head(status.Convert(err).Message(), maxShown)
	}
	x.Why = st.why(c, err)
	return x
}

// cutOff reports whether a stream ended with its connection, which the relay closed and not the client.
func (st *stream) cutOff(err error) bool {
	return status.Code(err) == codes.Canceled && identity.ClientOf(st.link.grpc.Context()).Conn().CutOff()
}

func (st *stream) why(c *closing, err error) Why {
	switch {
	case err == ErrRetired: //nolint:errorlint // the very error
		return WhyAge
	case isMoved(err):
		return WhyMoved
	case err == ErrDraining, isClosed(c.stopped), isClosed(c.drained) && st.cutOff(err): //nolint:errorlint // the very error
		return WhyDrain
	case refuses(err), st.link.refused:
		return WhyRefused
	case st.cutOff(err):
		return WhyKeepalive
	case status.Code(err) == codes.Unavailable, status.Code(err) == codes.Internal:
		return WhyUnserved
	}
	return WhyClient
}
