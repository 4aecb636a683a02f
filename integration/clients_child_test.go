package integration

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// child is a gRPC client in a process of its own: a program of testdata, which
// makes an RPC for each line of its input and writes a line of JSON about it.
type child struct {
	*process

	is      string // version of the library
	timeout time.Duration
	reading sync.WaitGroup

	mu      sync.Mutex
	ended   bool                      // nothing comes any more
	waiting map[string]chan<- outcome // by target
}

// startChild runs a program that ends each RPC after the timeout.
func startChild(t testing.TB, bootstrap []byte, timeout time.Duration, command ...string) rpcClient {
	t.Helper()
	command = append(command, backendMethod, strconv.FormatInt(timeout.Milliseconds(), 10))
	p, err := startProcess([]string{"GRPC_XDS_BOOTSTRAP_CONFIG=" + string(bootstrap)}, command...)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{process: p, timeout: timeout, waiting: make(map[string]chan<- outcome)}
	p.logOnFailure(t)
	t.Cleanup(c.close)
	var hello struct {
		Version string `json:"version"`
	}
	if err := p.output.Decode(&hello); err != nil {
		t.Fatalf("%v says nothing: %v", command, err)
	}
	c.is = hello.Version
	c.reading.Go(c.read)
	return c
}

func (c *child) version() string { return c.is }

// read hands outcomes to the calls that wait for them, until the process ends.
func (c *child) read() {
	for {
		var line struct {
			outcome

			Target string `json:"target"`
		}
		err := c.output.Decode(&line)
		c.mu.Lock()
		if err != nil {
			c.ended = true
			for target, call := range c.waiting {
				call <- gone(err)
				delete(c.waiting, target)
			}
		} else if call := c.waiting[line.Target]; call != nil {
			call <- line.outcome
			delete(c.waiting, line.Target)
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func gone(err error) outcome {
	return outcome{Code: codes.Internal, Message: fmt.Sprintf("the process is gone: %v", err)}
}

// call implements rpcClient.
func (c *child) call(target string) outcome {
	answer := make(chan outcome, 1)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return gone(io.EOF)
	}
	c.waiting[target] = answer
	_, err := io.WriteString(c.input, target+"\n")
	c.mu.Unlock()
	if err != nil {
		return gone(err)
	}
	select {
	case o := <-answer:
		return o
	case <-time.After(c.timeout + patience):
		return outcome{Code: codes.Internal, Message: "the process does not answer"}
	}
}

// close implements rpcClient.
func (c *child) close() {
	c.process.close()
	c.reading.Wait()
}
