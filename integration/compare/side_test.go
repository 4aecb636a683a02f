package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

const (
	// quietFor is how long a step's end waits for a further response. It is more than each of the times in
	// configuration.
	quietFor = 350 * time.Millisecond
	// direct is quietFor without a relay.
	direct = 50 * time.Millisecond
	// patience bounds a wait for something that is sure to come.
	patience = 20 * time.Second
	// comeback bounds the wait for streams that the control plane lost: a scope without clients does not come back.
	comeback = 4 * time.Second
	// standing is how long streams that came back must stand before a relay opens further ones as it did before.
	standing = 1100 * time.Millisecond
)

// configuration is a relay's, with short times.
const configuration = `
server: {listen: %q, ack_wait: 100ms, removal_wait: 50ms, warm_wait: 100ms, unreachable_after: 0s, drain: 0s}
admin: {listen: %q}
limits: {memory: 256MiB, admission: off}
aggregation: {otherwise: %s}
upstreams:
  - name: plane
    default: true
    endpoints: [%q]
    api_type: %s
    backoff: {base: 10ms, max: 50ms}
    settle: 100ms
    resume_settle: 100ms
    absent_after: %s
    guard: {removed: %s}
`

// side is one of the two builds, with its control plane and its clients.
type side struct {
	tb      testing.TB
	walk    *walk
	plane   *plane.Plane
	relay   *exec.Cmd // nil: the clients are on the control plane
	log     *logtest.Text
	clients [clients]*client
	silence time.Duration // that ends a step
	last    atomic.Int64  // when a client was sent something, or the control plane spoke
	down    bool          // the control plane
	streams int           // that it had before it lost them; 0 once they are back
	marker  int
}

// newSide starts a relay before a control plane. Without a binary there is none.
func newSide(tb testing.TB, binary string, w *walk) *side {
	tb.Helper()
	s := &side{tb: tb, walk: w, plane: plane.Start(tb, w.behaviour), log: new(logtest.Text), silence: direct}
	addr := s.plane.Addr()
	if binary != "" {
		s.silence = quietFor
		if w.absent != never {
			s.silence += w.absent
		}
		addr = s.serve(binary, w)
	}
	for i := range s.clients {
		s.clients[i] = newClient(s, addr, i, w.forms[i])
	}
	return s
}

func (s *side) serve(binary string, w *walk) (addr string) {
	s.tb.Helper()
	addr = fmt.Sprint("127.0.0.1:", ports.Free(s.tb))
	file := filepath.Join(s.tb.TempDir(), "relay.yaml")
	guard := "0%"
	if w.guard {
		guard = "50%, at_least: 2"
	}
	text := fmt.Sprintf(configuration, addr, fmt.Sprint("127.0.0.1:", ports.Free(s.tb)), w.otherwise, s.plane.Addr(), w.apiType, w.absent, guard)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	s.relay = exec.Command(binary, "serve", "--config", file, "--watch-config=false")
	s.relay.Env, s.relay.Stdout, s.relay.Stderr = []string{"GOMAXPROCS=2"}, s.log, s.log
	if err := s.relay.Start(); err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { _ = s.relay.Process.Kill() }) // after stop it has ended
	_, up := wait.Until(patience, func() bool {
		c, err := new(net.Dialer).DialContext(s.tb.Context(), "tcp", addr)
		return err == nil && c.Close() == nil
	})
	if !up {
		s.tb.Fatalf("%s does not listen:\n%s", binary, s.log)
	}
	return addr
}

// stop ends all. A relay that does not end well fails the test.
func (s *side) stop() {
	s.tb.Helper()
	for _, c := range s.clients {
		c.disconnect()
		_ = c.conn.Close()
	}
	s.plane.Stop()
	if s.relay == nil {
		return
	}
	_ = s.relay.Process.Signal(syscall.SIGTERM) // one that has ended is told by Wait
	late := time.AfterFunc(patience, func() { _ = s.relay.Process.Kill() })
	defer late.Stop()
	if err := s.relay.Wait(); err != nil {
		s.tb.Errorf("%v: %v\n%s", s.relay.Args, err, s.log)
	}
}

// do carries a step out.
func (s *side) do(st step) {
	if st.verb == lose || st.verb == stop || st.verb == replace {
		s.streams = max(s.streams, s.plane.Streams())
	}
	switch st.verb {
	case set, unset, spoil, mend, rollOut:
		s.plane.Apply(st.change)
	case fail:
		s.plane.Fail(*st.failed)
	case lose:
		s.plane.BreakStreams()
	case stop:
		s.plane.Stop()
		s.down = true
	case start, replace:
		s.plane.Stop()
		if st.verb == replace {
			s.plane.Forget()
			s.plane.Apply(st.change)
		}
		s.setMarker() // Forget dropped it
		s.plane.Restart(s.tb)
		s.down = false
	default:
		s.clients[st.client].do(st)
	}
}

// setMarker changes a resource that all clients subscribe to.
func (s *side) setMarker() {
	s.marker++
	s.plane.Set(&runtimev3.Runtime{
		Name: "marker", Layer: &structpb.Struct{Fields: map[string]*structpb.Value{"v": structpb.NewStringValue(fmt.Sprint("v", s.marker, " "))}},
	})
}

// quiet waits until the step is over.
func (s *side) quiet() {
	silence := s.silence
	if !s.down && s.streams > 0 {
		_, _ = wait.Until(comeback, func() bool { return s.plane.Streams() >= s.streams })
		silence, s.streams = max(silence, standing), 0
	}
	begin := time.Now()
	s.touch()
	if !s.down {
		s.setMarker()
		for i, c := range s.clients {
			if _, has := wait.Until(patience, func() bool { return !c.listens() || c.marked() == s.marker }); !has {
				s.clients[i].note("is not sent the marker")
			}
		}
	}
	// A machine that is slow with the marker is slow with everything.
	silence += min(2*time.Since(begin), 2*time.Second)
	said := -1
	_, _ = wait.Until(patience, func() bool { // a relay that never falls silent differs, or does not
		sent, unanswered := s.plane.Progress()
		if sent != said {
			said = sent
			s.touch()
		}
		return unanswered == 0 && time.Since(time.UnixMicro(s.last.Load())) > silence
	})
}

// take gives the lines of each client in a step.
func (s *side) take(step int) (now [clients][]string) {
	v := s.walk.steps[step].verb
	ordered := strings.HasPrefix(s.walk.apiType, "AGGREGATED") && (v == rollOut || v == unset)
	for i, c := range s.clients {
		now[i] = c.take(ordered)
	}
	return now
}

func (s *side) touch() { s.last.Store(time.Now().UnixMicro()) }

// client is one client of a side.
type client struct {
	*recorder
	*xdsclient.Client

	number       int
	conn         *grpc.ClientConn
	cancel       context.CancelFunc
	running      sync.WaitGroup
	up           atomic.Bool
	paused, late bool
}

func newClient(s *side, addr string, number int, f form) *client {
	s.tb.Helper()
	conn, err := xdsclient.Dial("passthrough:///"+addr, nil)
	if err != nil {
		s.tb.Fatal(err)
	}
	c := &client{recorder: &recorder{form: f, changed: s.touch, now: newSent()}, number: number, conn: conn}
	c.begin()
	return c
}

// begin makes it a client that holds nothing.
func (c *client) begin() {
	options := xdsclient.Options{
		Conn: c.conn, Node: &corev3.Node{Id: fmt.Sprint("client-", c.number), Cluster: "walk", UserAgentName: "walk"},
		PerType: c.form.perType, OnResponse: c.responds,
	}
	if c.form.state {
		options.Form = xdsclient.SotW
	}
	c.Client = xdsclient.New(options)
	c.paused, c.late = false, false
	c.Subscribe(plane.Runtime, "marker")
	c.connect()
}

// responds rejects content that is marked for this client.
func (c *client) responds(r *xdsclient.Response) error {
	c.response(r)
	for i := range r.Changes {
		if x := r.Changes[i].Resource; x != nil && bytes.Contains(x.Raw(), fmt.Append(nil, rejected, c.number)) {
			return errors.New("rejected " + r.Changes[i].Name)
		}
	}
	return nil
}

func (c *client) connect() {
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	c.up.Store(true)
	c.running.Go(func() {
		err := c.Run(ctx)
		c.up.Store(false)
		if ctx.Err() == nil {
			c.note("stream ended: %s", plain(fmt.Sprint(status.Code(err), " ", err)))
		}
	})
}

func (c *client) disconnect() {
	c.cancel()
	c.running.Wait()
}

// listens reports whether it will be sent the marker.
func (c *client) listens() bool { return c.up.Load() && !c.paused && !c.late }

func (c *client) do(st step) {
	switch st.verb {
	case subscribe:
		c.Subscribe(st.typed, st.names...)
	case unsubscribe:
		c.Unsubscribe(st.typed, st.names...)
	case disconnect:
		c.disconnect()
	case connect:
		c.disconnect() // a stream may have ended by itself
		c.connect()
	case forget:
		c.disconnect()
		c.begin()
	case pause:
		c.paused = true
		c.Pause()
	case resume:
		c.paused = false
		c.Resume()
	case holdACKs, sendACKs:
		c.late = st.verb == holdACKs
		c.HoldAcks(c.late)
	case set, unset, spoil, mend, rollOut, fail, lose, stop, start, replace: // the control plane's
	}
}
