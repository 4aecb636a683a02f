package downstream

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

const (
	// smallBody is what any poll may be long, in bytes. Few ever are longer.
	smallBody = 64 << 10
	// maxLargeBodies bounds what is held of longer ones while they are read, in bytes and
	// of all clients together: a body that comes slowly is in memory meanwhile (OPS-5).
	maxLargeBodies = 64 << 20
)

// errTooManyBodies refuses a poll that may come again.
var errTooManyBodies = &restjson.StatusError{Code: http.StatusTooManyRequests, Message: "too many large polls are being read at a time"}

// meteredBody is the body of a poll that is being read. What it holds beyond a small
// body counts against the bound for all.
type meteredBody struct {
	io.ReadCloser
	held *atomic.Int64 // of all
	n    int64
	over bool // the bound was passed
}

// Read implements io.Reader.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	before := max(0, b.n-smallBody)
	b.n += int64(n)
	if more := max(0, b.n-smallBody) - before; more > 0 && b.held.Add(more) > maxLargeBodies {
		b.over = true
		return n, errTooManyBodies
	}
	return n, err
}

// done gives back what was counted.
func (b *meteredBody) done() { b.held.Add(-max(0, b.n-smallBody)) }

// meter has a request's body counted. done must be called when it is not held any more.
func (s *Server) meter(r *http.Request) *meteredBody {
	b := &meteredBody{ReadCloser: r.Body, held: &s.bodies}
	r.Body = b
	return b
}
