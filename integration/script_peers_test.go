package integration

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// peer is one side of a conversation with the relay: it sends what the script says
// and nothing else, and keeps what comes until the script asks for it.
type peer struct {
	form messages

	mu      sync.Mutex
	arrived []envelope        // in order
	changed chan struct{}     // closed and replaced when anything comes
	stream  conversation      // the latest; nil before the first
	streams int               // how many there were
	symbols map[string]string // a client's: the relay's nonces and versions by the script's names for them
}

// conversation is a stream, seen from either end.
type conversation interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

func newPeer(form messages) peer {
	return peer{form: form, changed: make(chan struct{}), symbols: make(map[string]string)}
}

func (p *peer) bumpLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// converse keeps what comes on a stream until that ends.
func (p *peer) converse(g conversation) error {
	p.mu.Lock()
	p.stream = g
	p.streams++
	p.bumpLocked()
	p.mu.Unlock()
	for {
		m := p.form.response()
		if p.form.asks {
			m = p.form.request()
		}
		err := g.RecvMsg(m)
		p.mu.Lock()
		if err == nil {
			p.arrived = append(p.arrived, m)
		}
		p.bumpLocked()
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// await gives the first message of a type that came and was not given yet, waiting
// for it if need be. Types are conversations of their own: what came of others
// before it stays.
func (p *peer) await(ctx context.Context, typeURL string) (envelope, error) {
	for {
		p.mu.Lock()
		at := slices.IndexFunc(p.arrived, func(m envelope) bool { return m.GetTypeUrl() == typeURL })
		var m envelope
		if at >= 0 {
			m = p.arrived[at]
			p.arrived = slices.Delete(p.arrived, at, at+1)
		}
		changed := p.changed
		p.mu.Unlock()
		if m != nil {
			return m, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// rest gives what came and was not asked for.
func (p *peer) rest() []envelope {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.arrived)
}

// scriptedClient is a client of the relay, over ADS.
type scriptedClient struct {
	peer

	stop func()
}

func newScriptedClient(t testing.TB, addr string, form messages) *scriptedClient {
	t.Helper()
	c := &scriptedClient{peer: newPeer(form)}
	conn := dial(t, addr)
	ctx, cancel := context.WithCancel(context.Background())
	g, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, variant{sotw: form.sotw}.method(""), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	c.stream = g
	var reading sync.WaitGroup
	reading.Go(func() { _ = c.converse(g) }) // what is missing then is what await says
	c.stop = sync.OnceFunc(func() {
		cancel()
		reading.Wait()
		_ = conn.Close()
	})
	t.Cleanup(c.stop)
	return c
}

// scriptedPlane is a control plane on a port of its own.
type scriptedPlane struct {
	peer

	addr   string
	lis    net.Listener  // nil once it was used
	script *plane.Script // nil: stopped
}

// newScriptedPlane makes a control plane whose port takes connections. Nobody
// answers there before start.
func newScriptedPlane(t testing.TB) *scriptedPlane {
	t.Helper()
	p := &scriptedPlane{peer: newPeer(messages{asks: true}), lis: ports.Listen(t)}
	p.addr = p.lis.Addr().String()
	t.Cleanup(func() {
		p.stop()
		if p.lis != nil {
			_ = p.lis.Close()
		}
	})
	return p
}

func (p *scriptedPlane) start(t testing.TB) {
	t.Helper()
	lis := p.lis
	if p.lis = nil; lis == nil {
		lis = ports.Again(t, p.addr)
	}
	p.script = &plane.Script{Delta: p.handle}
	p.script.Serve(lis)
}

// handle serves the incremental ADS stream and no other.
func (p *scriptedPlane) handle(g plane.DeltaStream) error {
	method, _ := grpc.Method(g.Context())
	if method != deltaADS.method("") {
		return status.Errorf(codes.Unimplemented, "the script knows no %s", method)
	}
	return p.converse(g)
}

// stop ends the control plane as a crash does.
func (p *scriptedPlane) stop() {
	if p.script != nil {
		p.script.Stop()
		p.script = nil
	}
}
