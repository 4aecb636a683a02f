package envoy

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"google.golang.org/protobuf/encoding/protojson"
)

// examples are the bootstraps of examples/bootstraps for Envoys.
const examples = "../../examples/bootstraps/envoy*.yaml"

// validate has the binary look at a bootstrap, and gives what it says of it.
func validate(t *testing.T, file string) (output string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t), "--mode", "validate", "--config-path", file, "--log-level", "warning")
	text, err := cmd.CombinedOutput()
	return string(text), err == nil
}

// TestBootstrapsValid_ABS2 has the binary validate the examples, as they say of themselves.
func TestBootstrapsValid_ABS2(t *testing.T) {
	t.Parallel() // most of it is waiting
	files, err := filepath.Glob(examples)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if output, ok := validate(t, file); !ok {
			t.Errorf("%s:\n%s", file, output)
		}
	}
}

func readExample(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(filepath.Dir(examples), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// example reads a bootstrap of the examples and has it lead to other servers than those that it names, each
// once at least. What is left of it is as it stands there, but for the admin port and how
// often the Envoy pings.
func example(t *testing.T, name string, servers map[string]string) *bootstrapv3.Bootstrap {
	t.Helper()
	text := readExample(t, name)
	for from, to := range servers {
		host, port, err := net.SplitHostPort(from)
		if err != nil {
			t.Fatal(err)
		}
		toHost, toPort, err := net.SplitHostPort(to)
		if err != nil {
			t.Fatal(err)
		}
		named := "{address: " + host + ", port_value: " + port + "}"
		if !strings.Contains(text, named) {
			t.Fatalf("%s does not name %s", name, from)
		}
		text = strings.ReplaceAll(text, named, "{address: "+toHost+", port_value: "+toPort+"}")
	}
	if strings.Contains(text, "address: xdsrelay") || strings.Contains(text, "address: control-plane") {
		t.Fatalf("%s names more servers than %v", name, servers)
	}
	const pings = "connection_keepalive: {interval: 10s, timeout: 5s}"
	if !strings.Contains(text, pings) {
		t.Fatalf("%s has no %s", name, pings)
	}
	text = strings.ReplaceAll(text, pings, "connection_keepalive: {interval: 1s, timeout: 1s}")
	text = strings.ReplaceAll(text, "port_value: 9901", "port_value: 0")
	encoded, _, wrong := files.YAMLToJSON([]byte(text), 1<<20)
	if wrong != nil {
		t.Fatal(wrong)
	}
	b := new(bootstrapv3.Bootstrap)
	if err := protojson.Unmarshal(encoded, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// newExampleWorld is a control plane that a bootstrap of the examples leads to.
func newExampleWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, &scenario{behaviour: plane.GoControlPlane()}, deltaADS, direct)
}

// leaveLimit is how soon an Envoy leaves a relay that hangs: its pings fail after two seconds, and it does not try
// that relay again at once. While it did, this took up to a minute.
const leaveLimit = 15 * time.Second

// TestBootstrapTwoRelays_ABS2 has the relay that an Envoy is at hang, as a stopped process or
// a network without an answer does. The Envoy goes to the other one.
func TestBootstrapTwoRelays_ABS2(t *testing.T) {
	t.Parallel() // most of it is waiting
	w := newExampleWorld(t)
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(w.cluster("one"), endpoints("one", a), w.listener("web", "routes"), route("routes", "one"))
	relays := []*lifeline{newLifeline(t, w.oneMoreRelay()), newLifeline(t, w.oneMoreRelay())}
	e := envoyproc.Start(t, w.binary, example(t, "envoy.yaml", map[string]string{
		"xdsrelay-1.example.com:18100": relays[0].addr, "xdsrelay-2.example.com:18100": relays[1].addr,
	}))
	w.run(func() {
		w.need(soon, "the Envoy is served", w.answers(e, "web", "a"))
		at := slices.MaxFunc(relays, func(a, b *lifeline) int { return a.newest().Compare(b.newest()) })
		at.hang() // the other one, which Envoy may have tried before, lives
		w.plane.Set(endpoints("one", b))
		w.within(leaveLimit, "the change comes over the other relay", w.answers(e, "web", "b"))
		w.unscathed(e)
	})
	if faults, _ := w.result(); faults != "" {
		t.Error(faults)
	}
}

// oneMoreRelay starts a relay at the control plane, beside others, and gives its address.
func (w *world) oneMoreRelay() string {
	w.t.Helper()
	return startRelay(w.t, config.AggregatedDeltaGRPC, w.plane.Addr(), false, nil).addr
}

// lifeline passes connections on to a server, and keeps what passes. Once it hangs nothing passes, and no
// connection ends.
type lifeline struct {
	addr string

	mu    sync.Mutex
	hangs bool
	last  time.Time
	open  []net.Conn
	tapes []*tape // of all connections
	ways  sync.WaitGroup
}

// tape is what passed over a connection.
type tape struct{ requests, responses bytes.Buffer }

func newLifeline(t *testing.T, server string) *lifeline {
	t.Helper()
	lis := ports.Listen(t)
	l := &lifeline{addr: lis.Addr().String()}
	l.ways.Go(func() { l.accept(lis, server) })
	t.Cleanup(func() {
		_ = lis.Close()
		l.mu.Lock()
		for _, conn := range l.open {
			_ = conn.Close()
		}
		l.mu.Unlock()
		l.ways.Wait()
	})
	return l
}

func (l *lifeline) accept(lis net.Listener, server string) {
	for {
		client, err := lis.Accept()
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		up, err := new(net.Dialer).DialContext(ctx, "tcp", server)
		cancel()
		if err != nil {
			_ = client.Close()
			continue
		}
		l.mu.Lock()
		l.last = time.Now()
		l.open = append(l.open, client, up)
		kept := new(tape)
		l.tapes = append(l.tapes, kept)
		l.mu.Unlock()
		l.ways.Go(func() { l.pass(up, client, &kept.requests) })
		l.ways.Go(func() { l.pass(client, up, &kept.responses) })
	}
}

// pass copies from one side to the other, and into kept. What comes while the line hangs is lost.
func (l *lifeline) pass(to io.WriteCloser, from io.Reader, kept *bytes.Buffer) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		hangs := l.hangs
		l.mu.Unlock()
		if hangs {
			continue
		}
		kept.Write(buffer[:n])
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// hang has nothing pass from now on.
func (l *lifeline) hang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hangs = true
}

// newest returns when the last connection came; zero if there was none.
func (l *lifeline) newest() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
