package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// child is a gRPC client in a process of its own: a script of testdata, which
// makes an RPC for each line of its input and writes a line of JSON about it.
type child struct {
	cmd    *exec.Cmd
	kill   context.CancelFunc
	input  io.WriteCloser
	output *json.Decoder
	stderr *logText
	is     string // version of the library
}

// startChild runs a script with an interpreter. The environment is the path, the
// bootstrap and what env adds: nothing of the developer's may reach a client.
func startChild(t testing.TB, bootstrap []byte, target string, env []string, command ...string) rpcClient {
	t.Helper()
	ctx, kill := context.WithCancel(context.Background())
	c := &child{kill: kill, stderr: new(logText)}
	command = append(command, target, backendMethod, strconv.FormatInt(rpcTimeout.Milliseconds(), 10))
	c.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	c.cmd.Env = append(env, "PATH="+os.Getenv("PATH"), "GRPC_XDS_BOOTSTRAP_CONFIG="+string(bootstrap))
	c.cmd.Stderr = c.stderr
	c.cmd.WaitDelay = time.Second
	input, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.input, c.output = input, json.NewDecoder(output)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.close()
		if t.Failed() {
			t.Logf("%v ended with %v, its standard error is:\n%s", command, c.cmd.ProcessState, c.stderr)
		}
	})
	var hello struct {
		Version string `json:"version"`
	}
	if err := c.output.Decode(&hello); err != nil {
		t.Fatalf("%v says nothing: %v", command, err)
	}
	c.is = hello.Version
	return c
}

func (c *child) version() string { return c.is }

// call implements rpcClient. The script itself ends an RPC that takes too long.
func (c *child) call() outcome {
	var o outcome
	_, err := io.WriteString(c.input, "\n")
	if err == nil {
		err = c.output.Decode(&o)
	}
	if err != nil {
		return outcome{Code: codes.Internal, Message: fmt.Sprintf("the process is gone: %v", err)}
	}
	return o
}

// close ends the process: the end of its input asks for it, and a process that
// does not follow is killed.
func (c *child) close() {
	if c.cmd.ProcessState != nil {
		return // waited for already
	}
	defer c.kill()
	_ = c.input.Close()
	late := time.AfterFunc(5*time.Second, c.kill)
	defer late.Stop()
	_ = c.cmd.Wait() // what it ends with says nothing that its RPCs did not
}
