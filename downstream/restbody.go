package downstream

import (
	"io"
	"net/http"

	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

// errTooManyBodies refuses a poll. The client may poll again.
var errTooManyBodies = &restjson.StatusError{
	Code: http.StatusTooManyRequests, Message: "too many large polls are being read at a time (limits.unfinished_bytes, limits.share): poll again later",
}

// meteredBody is the body of a poll that is being read: a message that may not be finished (OPS-5, LIM-1).
type meteredBody struct {
	io.ReadCloser
	message *quota.Part
	from    string // the client's address
	client  *identity.Client
	over    bool // it was one too many
}

// Read implements io.Reader.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.client.Conn().Took(n)
	if !b.message.Add(n, func() quota.Client { return quota.Client{Address: quota.AddressOf(b.from)} }) {
		b.over = true
		return n, errTooManyBodies
	}
	return n, err
}

// done ends the counting.
func (b *meteredBody) done() { b.message.End() }

// meter has a request's body counted until done is called.
func (s *shared) meter(r *http.Request) *meteredBody {
	b := &meteredBody{ReadCloser: r.Body, message: s.unfinished.Begin(), from: r.RemoteAddr, client: identity.ClientOf(r.Context())}
	r.Body = b
	return b
}

// read reads a poll whose body is metered.
func (s *shared) read(w http.ResponseWriter, r *http.Request, body *meteredBody) (*restjson.Incoming, error) {
	in, err := restjson.ReadRequest(w, r, int64(s.config.MaxReceiveSize))
	switch {
	case body.over:
		s.observer.Limited(LimitUnfinished)
		return nil, errTooManyBodies
	case err != nil:
		return nil, err
	}
	if err := s.limits.Load().crammed(in.Others); err != nil {
		s.observer.Limited(LimitNode)
		return nil, err
	}
	return in, crammedNames(in.Names, in.Size())
}

// unreadable is the answer to a poll that cannot be read.
func (s *shared) unreadable(r *http.Request, err error) *answer {
	if r.Context().Err() != nil {
		return gone()
	}
	return refused(err)
}

// updatesOf is how many bytes a client sends at most while it reads an answer over HTTP/2: it makes room for
// more, twice for each 4 KiB, in a record of TLS.
func (a *answer) updatesOf() int {
	const part = 32
	if a.body == nil {
		return 0
	}
	return a.body.Size() / part
}
