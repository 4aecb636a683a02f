package envoy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
	"github.com/xdsrelay/xdsrelay/relay"
	"go.yaml.in/yaml/v3"
)

// childVariable has the test program be a relay with the configuration that it names, and nothing
// else: a process that can be killed.
const childVariable = "XDSRELAY_TEST_RELAY"

// firstListener is the first of the files that a child gets: the listeners for streams, for polls
// and for the admin port.
const firstListener = 3

// child is the relay of a configuration file. It runs until it is killed, or asked to end.
func child(file string) error {
	cfg, err := config.Load(file, nil, nil)
	if err != nil {
		return err
	}
	var listeners []net.Listener
	for i, name := range []string{"xds", "rest", "admin"} {
		f := os.NewFile(uintptr(firstListener+i), name)
		lis, err := net.FileListener(f)
		if err != nil {
			return fmt.Errorf("listener %s: %w", name, err)
		}
		_ = f.Close() // the listener has a copy
		listeners = append(listeners, lis)
	}
	it, err := relay.New(cfg, relay.Options{Version: "test", Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	it.ServeREST(listeners[1])
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := relays.Listen(ctx, it, cfg); err != nil {
		return err
	}
	return it.Run(ctx, nil, listeners[0], listeners[2])
}

// runChild runs the relay as a process of its own. Clients that connect before it accepts wait
// for it.
func (r *relayProcess) runChild(listeners ...net.Listener) {
	r.t.Helper()
	text, err := yaml.Marshal(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.t.TempDir(), "relay.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0]) // stop ends it
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), childVariable + "=" + file}
	cmd.Stdout, cmd.Stderr = r.log, r.log
	envoyproc.DieWithParent(cmd)
	for _, lis := range listeners {
		f, err := lis.(*net.TCPListener).File()
		if err != nil {
			r.t.Fatal(err)
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	// The addresses are the child's: they are free as soon as it is gone.
	for i, lis := range listeners {
		_, _ = lis.Close(), cmd.ExtraFiles[i].Close()
	}
	var once sync.Once
	end := func(how os.Signal) {
		once.Do(func() {
			_ = cmd.Process.Signal(how)
			err := cmd.Wait()
			if asked := how == syscall.SIGTERM; asked != cmd.ProcessState.Exited() || asked && err != nil {
				r.t.Errorf("the relay ended with %v after the signal: %v", err, how)
			}
		})
	}
	r.stop = func() { end(os.Kill) }
	r.leave = func() { end(syscall.SIGTERM) }
}
