package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/snapshot"
)

// answerWithin is how long a peer may take to connect and begin its answer, and how long it may be
// silent in the middle of it. Clients wait for this.
const answerWithin = 3 * time.Second

const (
	// maxHolds bounds the names of upstreams that a peer has content of, in bytes.
	maxHolds = 1 << 20
	// smallPart of MaxBytes is up to where many images are read at a time. Of larger ones it is one.
	smallPart = 16
)

// The reasons for which a peer gives no content.
var (
	// ErrSelf says that the peer is the relay itself.
	ErrSelf = errors.New("the peer is the relay itself")
	// ErrRefused says that the peer does not let the relay ask.
	ErrRefused = errors.New("the peer does not let this relay ask")
	// ErrTooLarge says that an image has more than peers.max_bytes.
	ErrTooLarge = errors.New("the image is larger than peers.max_bytes")
	// errSilent says that the peer is silent.
	errSilent = fmt.Errorf("the peer is silent for %s", answerWithin)
	errOther  = errors.New("the peer sent the image of another scope")
	errStatus = errors.New("the peer answers with a status that is none of a relay's")
)

// Ask asks the peer for the image of the scope with an ID, and gives it to take. That is not called if the peer does not
// have the scope, or if its image has the tag of before, which says that nothing changed. The error is ErrSelf,
// ErrRefused, or why there is no answer: then the peer is left alone for a while.
func (p *Peer) Ask(ctx context.Context, scope, before string, take func(*cache.Image, time.Time)) (tag string, err error) {
	query := url.Values{scopeParameter: {scope}}.Encode()
	err = p.exchange(ctx, query, before, func(ctx context.Context, response *http.Response, body io.Reader) error {
		switch response.StatusCode {
		case http.StatusNotFound:
			return nil
		case http.StatusNotModified:
			tag = before
			return nil
		}
		b := &bounded{from: body, left: p.client.cfg.MaxBytes, large: p.client.large, done: ctx.Done()}
		b.alone = b.left - b.left/smallPart
		defer b.release()
		h, image, err := snapshot.Read(b)
		if err != nil {
			return err
		}
		if h.ID != scope {
			return errOther
		}
		asOf := h.AsOf
		if now := time.Now(); asOf.After(now) {
			asOf = now
		}
		take(image, asOf)
		tag = response.Header.Get("ETag")
		return nil
	})
	return tag, err
}

// Look asks the peer which upstreams it has content of. Errors are those of Ask.
func (p *Peer) Look(ctx context.Context) (holds []string, err error) {
	err = p.exchange(ctx, "", "", func(_ context.Context, _ *http.Response, body io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(body, maxHolds))
		holds = strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
		return err
	})
	return holds, err
}

// exchange sends a request. read gets the answer.
func (p *Peer) exchange(ctx context.Context, query, tag string, read func(context.Context, *http.Response, io.Reader) error) (err error) {
	ctx, stop := context.WithTimeoutCause(ctx, exchangeTime, errTooLong)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(answerWithin, func() { cancel(errSilent) })
	defer silence.Stop()
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		p.finish(err)
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, (&url.URL{Scheme: "https", Host: p.target, Path: path, RawQuery: query}).String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set(fromHeader, p.client.cfg.ID)
	req.Header.Set("User-Agent", p.client.cfg.UserAgent)
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	response, err := p.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the answer was read, or is of no use
	switch response.StatusCode {
	case http.StatusOK, http.StatusNotFound, http.StatusNotModified:
	case http.StatusConflict:
		return ErrSelf
	case http.StatusForbidden:
		return ErrRefused
	default:
		return fmt.Errorf("%w: %s", errStatus, response.Status)
	}
	return read(ctx, response, heard{response.Body, func() { silence.Reset(answerWithin) }})
}

// heard tells of each sign of life.
type heard struct {
	io.Reader

	tell func()
}

// Read implements io.Reader.
func (h heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.tell()
	}
	return n, err
}

// bounded is an image while it is read: of at most so many bytes. A large one is read while no other is.
type bounded struct {
	from  io.Reader
	left  int // bytes
	alone int // with fewer left it is a large one
	large chan struct{}
	holds bool // the one place of large
	done  <-chan struct{}
}

// Read implements io.Reader.
func (r *bounded) Read(b []byte) (int, error) {
	if !r.holds && r.left < r.alone {
		select {
		case r.large <- struct{}{}:
			r.holds = true
		case <-r.done:
			return 0, context.Canceled
		}
	}
	n, err := r.from.Read(b)
	if r.left -= n; r.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

func (r *bounded) release() {
	if r.holds {
		<-r.large
	}
}
