package controlplanes

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// program is a control plane in a process of its own. It ends with the test.
type program struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	log   *logtest.Text
	ended chan struct{} // closed when the process is gone
	once  sync.Once
}

// start runs a command. The environment is the path and what env adds. Where output is not
// nil it takes what the program writes; the rest is shown if the test fails.
func start(t *testing.T, env []string, output io.Writer, command ...string) *program {
	t.Helper()
	p := &program{log: new(logtest.Text), ended: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Stdout, p.cmd.Stderr = io.Writer(p.log), p.log
	if output != nil {
		p.cmd.Stdout = output
	}
	p.cmd.WaitDelay = time.Second
	envoyproc.DieWithParent(p.cmd)
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%v: make soak SUITE=control-planes builds it", err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its last words are in the log
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%v wrote:\n%s", command, p.log)
		}
	})
	return p
}

// kill ends the process as a crash does, and waits for its end.
func (p *program) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill() // it may be gone already
		<-p.ended
	})
}

// awaitPort waits until a server of the program takes connections.
func (p *program) awaitPort(t *testing.T, addr string) {
	t.Helper()
	_, ok := wait.Until(patience, func() bool {
		select {
		case <-p.ended:
			return true
		default:
		}
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
	select {
	case <-p.ended:
		t.Fatalf("%v has ended", p.cmd.Args)
	default:
	}
	if !ok {
		t.Fatalf("%v does not listen on %s", p.cmd.Args, addr)
	}
}

// awaitLog waits until the program has written a text.
func (p *program) awaitLog(t *testing.T, text string) {
	t.Helper()
	if _, ok := wait.Until(patience, func() bool { return strings.Contains(p.log.String(), text) }); !ok {
		t.Fatalf("%v does not write %q", p.cmd.Args, text)
	}
}

// moduleVersion is the version of the module that a program of Go was built from.
func moduleVersion(program, module string) string {
	out, err := exec.Command("go", "version", "-m", program).Output()
	if err != nil {
		return err.Error()
	}
	for line := range bytes.Lines(out) {
		if f := bytes.Fields(line); len(f) > 2 && string(f[1]) == module {
			return string(f[2])
		}
	}
	return "unknown"
}

// spoken is a program that is told by lines of JSON what to serve, and answers each with one.
type spoken struct {
	*program

	version string
	replies chan reply // closed when the process has ended
}

// reply is an answer of a program.
type reply struct {
	Version string `json:"version"`
	Error   string `json:"error"`
}

// startSpoken runs a program and reads its first line.
func startSpoken(t *testing.T, env []string, command ...string) *spoken {
	t.Helper()
	read, write := io.Pipe()
	s := &spoken{program: start(t, env, write, command...), replies: make(chan reply, 1)}
	go func() {
		<-s.ended
		_ = write.Close()
	}()
	go s.read(json.NewDecoder(read))
	s.version = s.answer(t).Version
	return s
}

// read takes all that the process writes, or it would stop at its next line. Some programs
// tell of their streams between the answers.
func (s *spoken) read(lines *json.Decoder) {
	defer close(s.replies)
	for {
		var line struct {
			reply

			Stream int `json:"stream"`
		}
		if err := lines.Decode(&line); err != nil {
			return // the end of the process
		}
		if line.Stream == 0 {
			s.replies <- line.reply
		}
	}
}

// answer waits for the next answer.
func (s *spoken) answer(t *testing.T) reply {
	t.Helper()
	select {
	case r, ok := <-s.replies:
		if !ok || r.Error != "" {
			t.Fatalf("%v: ended, or %q", s.cmd.Args, r.Error)
		}
		return r
	case <-time.After(patience):
		t.Fatalf("%v does not answer", s.cmd.Args)
		return reply{}
	}
}

// tell writes a line and waits for the answer.
func (s *spoken) tell(t *testing.T, command any) {
	t.Helper()
	if err := json.NewEncoder(s.input).Encode(command); err != nil {
		t.Fatal(err)
	}
	s.answer(t)
}
