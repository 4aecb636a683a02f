package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// answerWithin is how long a peer may take to connect and confirm the marker, and how long it may be
// silent in the middle of its answer. Clients wait for this.
const answerWithin = 3 * time.Second

// requestBytes bounds a request to a peer: a relay may be configured to take no larger ones.
const requestBytes = 60 << 10

// The reasons for which a peer gives no content.
var (
	// ErrSelf says that the peer is the relay itself.
	ErrSelf = errors.New("the peer is the relay itself")
	// ErrRefused says that the peer does not let the relay ask: this is not its peers.listener, or the certificate's URI
	// is not among its peers.identities.
	ErrRefused = errors.New("the peer does not let this relay ask")
	// ErrTooLarge says that an exchange has more than peers.max_bytes, here or at the peer.
	ErrTooLarge = status.Error(codes.ResourceExhausted, "the exchange is larger than peers.max_bytes")
	// errSilent says that the peer is silent, or that it is no relay that knows markers.
	errSilent = errors.New("the peer does not answer")
)

// Answer is what a peer has of a store.
type Answer struct {
	Known bool // the peer has the store
	AsOf  time.Time
	Parts []cache.PeerAnswer
}

// Ask asks the peer for content of the store with an ID. The error is ErrSelf, ErrRefused, or why
// there is no answer: then the peer is left alone for a while.
func (p *Peer) Ask(ctx context.Context, store string, wants []cache.PeerWants) (*Answer, error) {
	questions := split(wants)
	r, err := p.exchange(ctx, &Marker{From: p.id, Store: store}, questions)
	if err != nil {
		return nil, err
	}
	answer := &Answer{Known: r.Known, AsOf: r.asOf()}
	if r.Known {
		for i := range questions {
			answer.Parts = append(answer.Parts, questions[i].answer())
		}
	}
	return answer, nil
}

// Look asks the peer which upstreams it has content of. Errors are those of Ask.
func (p *Peer) Look(ctx context.Context) (holds []string, err error) {
	r, err := p.exchange(ctx, &Marker{From: p.id}, nil)
	if err != nil {
		return nil, err
	}
	return r.Holds, nil
}

// exchange opens a stream with a marker, asks the questions once the peer has confirmed the marker,
// and reads until the peer ends the stream.
func (p *Peer) exchange(ctx context.Context, m *Marker, questions []question) (*Reply, error) {
	ctx, stop := context.WithTimeoutCause(ctx, exchangeTime, errTooLong)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(answerWithin, func() { cancel(errSilent) })
	defer silence.Stop()
	x := exchange{questions: questions, left: allowance(p.maxBytes), heard: func() { silence.Reset(answerWithin) }}
	err := x.run(ctx, p, m)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	cancel(nil) // has the sender end
	x.sender.Wait()
	switch {
	case err == nil, errors.Is(err, context.Canceled):
	case errors.Is(err, ErrSelf):
		p.rest(afterSelf)
	case errors.Is(err, ErrRefused), status.Code(err) == codes.ResourceExhausted:
		p.rest(afterRefusal)
	default:
		p.rest(afterFailure)
	}
	return &x.reply, err
}

// exchange is one stream to a peer.
type exchange struct {
	questions []question
	left      allowance
	heard     func() // called for each sign of life
	reply     Reply
	sender    sync.WaitGroup
}

func (x *exchange) run(ctx context.Context, p *Peer, m *Marker) error {
	ctx = metadata.AppendToOutgoingContext(ctx, header, encode(m))
	cs, err := p.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	md, err := cs.Header()
	if err != nil {
		return err
	}
	switch bad := decode(md.Get(header), &x.reply); {
	case bad != nil:
		return fmt.Errorf("%w as a relay: %w", errSilent, bad)
	case x.reply.ID == p.id:
		return ErrSelf
	case x.reply.Ignored:
		return ErrRefused
	}
	x.heard()
	x.sender.Go(func() {
		defer p.panics.Catch(logs.PartBackground, nil)
		x.send(cs)
	})
	return x.receive(cs)
}

// send asks the questions.
func (x *exchange) send(cs grpc.ClientStream) {
	if x.reply.Known {
		for i := range x.questions {
			if cs.SendMsg(x.questions[i].request(i)) != nil {
				return // RecvMsg has the reason
			}
		}
	}
	_ = cs.CloseSend() // it fails only where the stream is over
}

// receive reads the answers until the end of the stream.
func (x *exchange) receive(cs grpc.ClientStream) error {
	for {
		r := new(wire.Response)
		switch err := cs.RecvMsg(r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		x.heard()
		if err := x.left.take(sizeOf(r)); err != nil {
			return err
		}
		i, err := strconv.Atoi(r.Nonce)
		if err != nil || i < 0 || i >= len(x.questions) {
			continue
		}
		if q := &x.questions[i]; q.TypeURL == r.TypeURL {
			q.take(r)
		}
	}
}

// sizeOf is what stays in memory of a response, in bytes.
func sizeOf(r *wire.Response) (n int) {
	for _, resource := range r.Resources {
		n += resource.Size()
	}
	for i := range r.Errors {
		n += len(r.Errors[i].Name) + len(r.Errors[i].Message)
	}
	return n
}

// question is one request, and what came for it.
type question struct {
	cache.PeerWants

	resources []*wire.Resource
	unknown   map[string]struct{}
}

// split makes questions that are not larger than a request may be.
func split(wants []cache.PeerWants) []question {
	var all []question
	for _, w := range wants {
		var q question
		q.TypeURL, q.Kind = w.TypeURL, w.Kind
		size := 0
		for _, name := range w.Names {
			n := 1 + protowire.SizeBytes(len(name))
			if size += n; size > requestBytes && len(q.Names) > 0 {
				all = append(all, q)
				q.Names, size = nil, n
			}
			q.Names = append(q.Names, name)
		}
		all = append(all, q)
	}
	return all
}

// request is the question as it travels. Its nonce is in the answers.
func (q *question) request(number int) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: q.TypeURL, ResponseNonce: strconv.Itoa(number), ResourceNamesSubscribe: q.Names,
	}
}

func (q *question) take(r *wire.Response) {
	q.resources = append(q.resources, r.Resources...)
	for i := range r.Errors {
		if q.unknown == nil {
			q.unknown = make(map[string]struct{})
		}
		q.unknown[r.Errors[i].Name] = struct{}{}
	}
}

// answer is what came, once the stream has ended: each collection without an error is complete.
func (q *question) answer() cache.PeerAnswer {
	a := cache.PeerAnswer{Resources: q.resources}
	a.TypeURL, a.Kind = q.TypeURL, q.Kind
	for _, name := range q.Names {
		if _, lacks := q.unknown[name]; !lacks && cache.IsCollection(name) {
			a.Names = append(a.Names, name)
		}
	}
	return a
}
