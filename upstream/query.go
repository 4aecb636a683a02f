package upstream

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// DefaultResponseTimeout is how long a server may leave a request unanswered that it must
// answer.
const DefaultResponseTimeout = 8 * time.Second

// query is a first request without versions, on a stream or a poll of its own (SUR-2).
type query struct {
	stream  wire.StreamID // which has the type's service
	typeURL string
	names   []string           // nil: everything, by an empty list
	held    map[string]content // incremental: the content that was delivered
	// sure: an answer is owed. Otherwise there may be no such resource.
	sure bool
}

// someNames is how many names of a type a query to an incremental server has at most.
const someNames = 16

// terms say how a query is sent. An answer that has not come by the deadline does not
// come. Where stay is set the stream must stand for so long after the answer. heard is called
// with the first answer, from any goroutine.
type terms struct {
	deadline time.Time
	stay     time.Duration
	heard    func(at time.Time)
}

// asker sends queries over streams or polls of their own. Any goroutine may call it.
type asker interface {
	// ask asks a replica, until ctx ends. It gives the response of a stream, if that can be read. A server
	// that refuses has answered: the error is errUnwilling then. Without an answer it is errSilent, or says that
	// there is no connection.
	ask(ctx context.Context, x *replica, q *query, t terms) (*wire.Response, error)
}

var (
	errSilent    = errors.New("the server does not answer")
	errUnwilling = errors.New("the server refuses the query")
	errStood     = errors.New("the stream stood for long enough")
)

// refusedBy reports whether an error is a server's own answer to the request, and not
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

// contradicts reports whether an answer has another content at a version that the session holds.
func (q *query) contradicts(answer *wire.Response) (name string, found bool) {
	if len(q.held) == 0 || answer == nil {
		return "", false
	}
	for _, r := range answer.Resources {
		if q.held[r.Name].differs(r) {
			return r.Name, true
		}
	}
	return "", false
}

// content is the version of a resource that the control plane delivered, and the sum of its payload.
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
	return c.version != "" && c.version == r.Version && r.HasPayload() && contentOf(r) != c
}
