package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// childEnv has the test binary be a control plane, which a test can stop as a process.
const childEnv = "XDSRELAY_TEST_CONTROL_PLANE=1"

// childPlane serves one cluster until standard input ends, if the process is such a child.
func childPlane() bool {
	name, value, _ := strings.Cut(childEnv, "=")
	if os.Getenv(name) != value {
		return false
	}
	cp := gocontrolplane.New()
	defer cp.Close()
	_, err := cp.UpdateResource("c", message(clusterType, "c", "1", ""))
	if err == nil {
		err = cp.Start(context.Background(), "127.0.0.1:0")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(cp.Addr()) //nolint:errchkjson // a string; the reader has gone if this fails
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

// startChildPlane starts a control plane as a process of its own, and returns its address.
func startChildPlane(t *testing.T) (*process, string) {
	t.Helper()
	p, err := startProcess([]string{childEnv}, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	p.logOnFailure(t)
	var address string
	if err := p.output.Decode(&address); err != nil {
		t.Fatal(err)
	}
	return p, address
}

// tunnel forwards connections to an address until it is closed up: then they stay open, and
// nothing passes any more. New ones are taken, too.
type tunnel struct {
	lis     net.Listener
	closed  chan struct{}
	closing sync.Once
	copying sync.WaitGroup
}

func newTunnel(t *testing.T, to string) *tunnel {
	t.Helper()
	u := &tunnel{lis: ports.Listen(t), closed: make(chan struct{})}
	var mu sync.Mutex
	var open []net.Conn
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, c)
	}
	pass := func(dst, src net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			if err != nil {
				_ = dst.Close()
				return
			}
			select {
			case <-u.closed:
				continue // the bytes vanish
			default:
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				_ = src.Close()
				return
			}
		}
	}
	u.copying.Go(func() {
		for {
			c, err := u.lis.Accept()
			if err != nil {
				return
			}
			keep(c)
			d, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			keep(d)
			u.copying.Go(func() { pass(d, c) })
			u.copying.Go(func() { pass(c, d) })
		}
	})
	t.Cleanup(func() {
		_ = u.lis.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		u.copying.Wait()
	})
	return u
}

func (u *tunnel) closeUp() { u.closing.Do(func() { close(u.closed) }) }

// A control plane whose process is stopped, one behind a network that loses everything, and
// one that takes connections and says nothing: the second endpoint serves, and the client
// loses nothing.
func TestSilentControlPlane_SUR2_UPS1(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, begin := range map[string]func(t *testing.T) (address string, fail func()){
		"stopped": func(t *testing.T) (string, func()) {
			t.Helper()
			p, address := startChildPlane(t)
			t.Cleanup(func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }) // so that it can end
			return address, func() {
				if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a network that loses everything": func(t *testing.T) (string, func()) {
			t.Helper()
			_, address := startChildPlane(t)
			u := newTunnel(t, address)
			return u.lis.Addr().String(), u.closeUp
		},
		"a listener that says nothing": func(t *testing.T) (string, func()) {
			t.Helper()
			_, address := startChildPlane(t)
			u := newTunnel(t, address)
			u.closeUp()
			return u.lis.Addr().String(), func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, fail := begin(t)
			second := startControlPlane(t)
			put := func(version string) {
				t.Helper()
				if _, err := second.UpdateResource("c", message(clusterType, "c", version, "")); err != nil {
					t.Fatal(err)
				}
			}
			put("1")
			relay := startRelay(t, func(c *config.Config) {
				c.Upstreams[0].Endpoints = [][]string{{first}, {second.Addr()}}
			}, first)
			c := startNoted(t, deltaADS, relay, "client")
			c.Subscribe(clusterType, "*")
			c.awaitContent(t, "the first state", clusterType, "c", string(contents(clusterType, "c", "1", "")))
			began := time.Now()
			fail()
			put("2")
			// 20 seconds on a machine at rest: pings notice it.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			changed := string(contents(clusterType, "c", "2", ""))
			if err := c.Wait(ctx, func(*xdsclient.Client) bool { return c.content(clusterType, "c") == changed }); err != nil {
				_, page := relay.get(t, "/upstreams")
				t.Fatalf("the second endpoint does not serve; the client noted %s\n%s", c.story(), page)
			}
			t.Logf("the second endpoint served %v after the fault", time.Since(began))
			if _, page := relay.get(t, "/metrics"); !strings.Contains(page, `xdsrelay_upstream_answer_seconds_count{upstream="plane-0"}`) {
				t.Error("no time of an answer is told")
			}
			relay.consistent(t)
		})
	}
}
