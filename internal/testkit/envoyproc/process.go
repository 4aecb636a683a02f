package envoyproc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"google.golang.org/protobuf/encoding/protojson"
)

// Variable is the environment variable that names the Envoy binary.
const Variable = "XDSRELAY_ENVOY"

// LevelVariable is the environment variable that changes the log level of Envoys,
// which is "warning" without it.
const LevelVariable = "XDSRELAY_ENVOY_LOG"

// patience is how long a process may take until its admin port answers.
const patience = 30 * time.Second

// Find gives the path of the binary. The error says how to get one.
func Find() (string, error) {
	path := os.Getenv(Variable)
	if path == "" {
		return "", errors.New(Variable + " names no Envoy: make integration installs one and runs these tests")
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("%s: %w", Variable, err)
	}
	return path, nil
}

// Envoy is a running Envoy. Its methods may be called from any goroutine; those that
// take a testing.TB only from the test's own.
type Envoy struct {
	// immutable after Start
	node   string
	cmd    *exec.Cmd
	log    *tail
	admin  string // URL
	client *http.Client
	ended  chan struct{} // closed when the process is gone

	killing sync.Once
}

// Start runs the binary with a bootstrap and waits until its admin port answers. The
// Envoy need not be live then.
func Start(tb testing.TB, binary string, bootstrap *bootstrapv3.Bootstrap) *Envoy {
	tb.Helper()
	folder := tb.TempDir()
	config, err := protojson.Marshal(bootstrap)
	if err != nil {
		tb.Fatal(err)
	}
	file, admin := filepath.Join(folder, "bootstrap.json"), filepath.Join(folder, "admin")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		tb.Fatal(err)
	}
	level := os.Getenv(LevelVariable)
	if level == "" {
		level = "warning"
	}
	e := &Envoy{
		node: bootstrap.GetNode().GetId(), log: new(tail), ended: make(chan struct{}),
		client: &http.Client{Timeout: patience, Transport: &http.Transport{}},
	}
	//nolint:gosec,noctx // the developer names the binary; Kill ends it
	e.cmd = exec.Command(binary, "--config-path", file, "--admin-address-path", admin,
		"--use-dynamic-base-id", "--concurrency", "1", "--log-level", level, "--drain-time-s", "1",
		"--skip-deprecated-logs", "--file-flush-interval-msec", "50")
	e.cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // nothing of the developer's reaches it
	e.cmd.Stdout, e.cmd.Stderr = e.log, e.log
	e.cmd.WaitDelay = time.Second
	DieWithParent(e.cmd)
	if err := e.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(e.ended)
		_ = e.cmd.Wait() // what it ends with is in its log
	}()
	tb.Cleanup(func() {
		e.Kill()
		if tb.Failed() {
			tb.Logf("the last that Envoy %s logged:\n%s", e.node, e.log)
		}
	})
	e.awaitAdmin(tb, admin)
	return e
}

// awaitAdmin waits for the file with the address of the admin port, and for the
// first answer there.
func (e *Envoy) awaitAdmin(tb testing.TB, file string) {
	tb.Helper()
	_, ok := wait.Until(patience, func() bool {
		select {
		case <-e.ended:
			return true
		default:
		}
		addr, err := os.ReadFile(file)
		if err != nil || len(addr) == 0 {
			return false
		}
		e.admin = "http://" + string(bytes.TrimSpace(addr))
		_, err = e.Get("/ready")
		return err == nil
	})
	if !ok || e.Ended() {
		tb.Fatalf("Envoy %s does not answer on its admin port; it logged:\n%s", e.node, e.log)
	}
}

// Kill ends the process at once and waits for its end.
func (e *Envoy) Kill() {
	e.killing.Do(func() {
		_ = e.cmd.Process.Kill() // it may be gone already
		<-e.ended
		e.client.CloseIdleConnections()
	})
}

// Ended reports whether the process is gone.
func (e *Envoy) Ended() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// Node is the id of the Envoy's node.
func (e *Envoy) Node() string { return e.node }

// Get reads a page of the admin port. Pages that answer with another status than 200
// are no error: /ready does so until the Envoy is live.
func (e *Envoy) Get(path string) (string, error) {
	resp, err := e.client.Get(e.admin + path) //nolint:noctx // the client has a timeout
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 32 << 10

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2*tailSize {
		t.text = append([]byte(nil), t.text[len(t.text)-tailSize:]...)
	}
	return len(p), nil
}

// String implements [fmt.Stringer].
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text[max(0, len(t.text)-tailSize):])
}
