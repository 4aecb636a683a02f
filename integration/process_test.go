package integration

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
)

// process is a program of testdata, which reads lines and writes lines of JSON. The
// end of its input asks it to end.
type process struct {
	cmd    *exec.Cmd
	kill   context.CancelFunc
	input  io.WriteCloser
	output *json.Decoder
	stderr *logtest.Text
}

// startProcess runs a program. The environment is the path and what env adds:
// nothing of the developer's may reach a program.
func startProcess(env []string, command ...string) (*process, error) {
	ctx, kill := context.WithCancel(context.Background())
	p := &process{kill: kill, stderr: new(logtest.Text)}
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	p.cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
	p.cmd.Stderr = p.stderr
	p.cmd.WaitDelay = time.Second
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		kill()
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		kill()
		return nil, err
	}
	p.output = json.NewDecoder(output)
	if err := p.cmd.Start(); err != nil {
		kill()
		return nil, err
	}
	return p, nil
}

// close asks the process to end, kills a process that does not, and waits for it.
// Closing again does nothing.
func (p *process) close() {
	_ = p.input.Close() // a process that is gone ends as well
	late := time.AfterFunc(5*time.Second, p.kill)
	defer late.Stop()
	p.wait()
}

// crash kills the process, and waits for it.
func (p *process) crash() {
	p.kill()
	p.wait()
}

func (p *process) wait() {
	if p.cmd.ProcessState != nil {
		return // waited for already
	}
	defer p.kill()
	_ = p.cmd.Wait() // its last words are on standard error
}

// logOnFailure has a test that fails show what the process wrote to standard error.
func (p *process) logOnFailure(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v: %v; its standard error is:\n%s", p.cmd.Args, p.cmd.ProcessState, p.stderr)
		}
	})
}
