package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// DefaultResponseTimeout is how long a server may leave a request unanswered that it must
// answer.
const DefaultResponseTimeout = 8 * time.Second

// question is a first request for what the control plane delivered before, and without
// versions, so that a server must answer it (SUR-2). It goes over a stream or a poll of its
// own.
type question struct {
	parts []part
	// perhaps is set if nobody knows whether there is what it asks for: silence says nothing
	// about the server.
	perhaps bool
}

// purpose is what a question is for.
type purpose int

const (
	toHear    purpose = iota // whether the server still answers
	toFind                   // another server, which may lack some of it
	toCompare                // versions
)

// part is what a question asks of one type.
type part struct {
	stream  wire.StreamID // which has the type's service
	typeURL string
	names   []string // nil: everything, by an empty list
	held    map[string]content
}

// join adds what another part of the same type asks for.
func (p *part) join(o part) {
	for name, c := range o.held {
		known, asked := p.held[name]
		if !asked {
			p.names = append(p.names, name)
		}
		if known.sum == 0 { // there is nothing to compare with
			p.held[name] = c
		}
	}
}

// size is how many names of a type a question has at most.
const (
	oneName   = 1
	someNames = 16 // to look for another server, which may lack some
)

// reply is what came of a question.
type reply struct {
	bytes     int
	resources map[string][]*wire.Resource // by type, of incremental responses
}

// terms say how a question is asked. An answer that has not come by the deadline does not
// come. Where stay is set the stream must stand for so long after the answer. heard is called
// with the first answer, from any goroutine.
type terms struct {
	deadline time.Time
	stay     time.Duration
	heard    func(at time.Time)
}

// asker asks questions over streams or polls of their own. Any goroutine may call it.
type asker interface {
	// ask asks a replica, until ctx ends. A server that refuses has answered: the error is
	// errUnwilling then. Without an answer it is errSilent, or says that there is no
	// connection.
	ask(ctx context.Context, x *replica, q *question, t terms) (reply, error)
}

var (
	errSilent    = errors.New("the server does not answer")
	errUnwilling = errors.New("the server refuses the question")
	errStood     = errors.New("the stream stood for long enough")
)

// refusedBy reports whether an error is a server's own word about what was asked of it, and not
// that of a connection that broke, or of a proxy whose server is gone. The relay's own reasons
// are no statuses. The codes that are left out are about the stream's life.
func refusedBy(err error) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch st.Code() {
	case codes.OK, codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return false
	default:
		return true
	}
}

// content is what is known of a resource that the control plane delivered: its version, and
// the sum of its payload, zero if that is not known.
type content struct {
	version string
	sum     uint64
}

// contentOf sums a payload up. Equal payloads have equal sums, also if a server encoded the
// entries of a map in another order.
func contentOf(r *wire.Resource) content {
	var counts [256]uint64
	payload := r.Any()
	for _, b := range payload {
		counts[b]++
	}
	sum := uint64(len(payload)) + 1
	for _, n := range &counts {
		sum = (sum ^ n) * 0x100000001b3 // FNV-1a
	}
	return content{r.Version, sum}
}

// differs reports whether r has the version of c and another payload.
func (c content) differs(r *wire.Resource) bool {
	return c.sum != 0 && c.version != "" && c.version == r.Version && r.HasPayload() && contentOf(r) != c
}

// anyOf gives one of n at random.
func anyOf(n int) int { return rand.IntN(n) } //nolint:gosec // spreading, not secrecy
