package downstream

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

const (
	// smallBody is how many bytes the body of any poll may have. Few have more.
	smallBody = 64 << 10
	// maxLargeBodies limits the bytes of larger bodies that are being read, of all clients
	// together: a body that comes slowly is in memory meanwhile (OPS-5).
	maxLargeBodies = 64 << 20
)

// errTooManyBodies refuses a poll. The client may poll again.
var errTooManyBodies = &restjson.StatusError{Code: http.StatusTooManyRequests, Message: "too many large polls are being read at a time"}

// meteredBody is the body of a poll that is being read. Its bytes beyond smallBody count for
// maxLargeBodies.
type meteredBody struct {
	io.ReadCloser
	large *atomic.Int64 // bytes of all large bodies
	n     int64
	over  bool // it was one too many
}

// Read implements io.Reader.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	before := max(0, b.n-smallBody)
	b.n += int64(n)
	if more := max(0, b.n-smallBody) - before; more > 0 && b.large.Add(more) > maxLargeBodies {
		b.over = true
		return n, errTooManyBodies
	}
	return n, err
}

// done ends the counting.
func (b *meteredBody) done() { b.large.Add(-max(0, b.n-smallBody)) }

// meter has a request's body counted until done is called.
func (p *polling) meter(r *http.Request) *meteredBody {
	b := &meteredBody{ReadCloser: r.Body, large: &p.bodies}
	r.Body = b
	return b
}
