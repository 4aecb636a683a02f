package xdsclient

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// poller is a stream of one type made of polls: what was sent last is what the next poll
// asks for.
//
// A poll presents the version that is held, so that the server may hold it until there
// is another one (REST-1); one that was answered sooner, by 304 or with what is held
// already, is followed by the next after the interval and some jitter (REST-3). Names
// that are subscribed or taken back interrupt the poll: the next one presents no version,
// since a server may know no other sign that something is missing. An error, or a status
// that is neither 200 nor 304, ends the stream.
type poller struct {
	// immutable after open
	client   *http.Client
	interval time.Duration
	ctx      context.Context
	typeURL  string
	url      *url.URL // without a path
	opened   func()
	wake     chan struct{} // one slot: something was sent

	// owned by the goroutine that receives
	due  time.Time // of the next poll for the same names
	last []byte    // digest of the last response

	// guarded by mu
	mu     sync.Mutex
	node   *corev3.Node
	begun  bool                          // something was sent
	latest *discoveryv3.DiscoveryRequest // nil: nothing is asked for
	owes   bool                          // the last response was not answered yet
	stale  bool                          // it was for other names than those asked for now
	moved  bool                          // other names are asked for than the last poll did
	abort  context.CancelFunc            // of the poll at hand; nil between polls
}

// ask is what one poll asks for.
type ask struct {
	ctx   context.Context
	req   *discoveryv3.DiscoveryRequest
	stale bool // what is held is not what the names would give: anything is news
}

// Send implements wireStream.
func (p *poller) Send(msg proto.Message, node *corev3.Node) error {
	req := msg.(*discoveryv3.DiscoveryRequest)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.begun: // with what is held, and the version of that
		p.begun, p.node = true, node
	case (req == nil) != (p.latest == nil), !slices.Equal(req.GetResourceNames(), p.latest.GetResourceNames()):
		p.stale, p.moved = true, true
		if p.abort != nil {
			p.abort()
		}
	}
	p.latest, p.owes = req, false
	notify.Signal(p.wake)
	return nil
}

// Recv implements wireStream.
func (p *poller) Recv(r *wire.Received) error {
	for {
		a, err := p.next()
		if err != nil {
			return err
		}
		news, err := p.poll(a, r)
		interrupted := p.done(a, news)
		switch {
		case p.ctx.Err() != nil:
			return context.Cause(p.ctx)
		case news:
			return nil
		case err != nil && !interrupted:
			return err
		}
	}
}

// next waits until it is time for a poll.
func (p *poller) next() (ask, error) {
	pace := time.NewTimer(time.Until(p.due))
	defer pace.Stop()
	due := false
	for {
		if a, ok := p.begin(due); ok {
			return a, nil
		}
		select {
		case <-p.wake:
		case <-pace.C:
			due = true
		case <-p.ctx.Done():
			return ask{}, context.Cause(p.ctx)
		}
	}
}

// begin begins a poll if one is due, or if it would ask for other names than the
// last one.
func (p *poller) begin(due bool) (ask, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest == nil || p.owes || !due && !p.moved {
		return ask{}, false
	}
	a := ask{req: proto.CloneOf(p.latest), stale: p.stale}
	a.req.Node = p.node // there is no stream of which it is the first request (STR-2)
	if a.stale {
		a.req.VersionInfo = ""
	}
	p.moved = false
	p.due = time.Now().Add(p.interval + rand.N(1+p.interval/2)) //nolint:gosec // jitter needs no secrecy
	a.ctx, p.abort = context.WithCancel(p.ctx)
	return a, true
}

// done ends a poll, and tells whether it was interrupted. After news there is no
// poll before they were answered: the version to present is in the answer.
func (p *poller) done(a ask, news bool) (interrupted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	interrupted = a.ctx.Err() != nil
	p.abort()
	p.abort = nil
	if news {
		p.owes = true
		p.stale = p.moved
	}
	return interrupted
}

// poll asks once, and tells whether r is news.
func (p *poller) poll(a ask, r *wire.Received) (news bool, err error) {
	got, sum, err := p.post(a.ctx, a.req)
	switch {
	case errors.Is(err, restjson.ErrUnchanged):
		return false, nil
	case err != nil:
		return false, err
	case !a.stale && bytes.Equal(sum, p.last):
		return false, nil // also what was rejected, the version of which is not presented
	case got.Err == nil && got.Version != "" && got.Version == a.req.GetVersionInfo():
		return false, nil
	}
	*r = got
	p.last = sum
	return true, nil
}
