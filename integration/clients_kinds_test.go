package integration

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
)

// The folders of the clients that are not written in Go.
const (
	grpcJSFolder = "testdata/grpcjs"
	pythonFolder = "testdata/python"
	javaFolder   = "testdata/grpcjava"
)

// clientKind is an implementation of gRPC with its own xDS client.
type clientKind struct {
	name string
	// missing says what this machine lacks for it; nil: nothing.
	missing func() error
	// start runs a client that ends each RPC after the timeout. The client ends by
	// its close.
	start func(t testing.TB, bootstrap []byte, timeout time.Duration) rpcClient
	// fallsBack: the client goes on to the second server of its bootstrap where the
	// first one cannot be used.
	fallsBack bool
	// certificates: the client takes a certificate of its own from its bootstrap (gRFC A65).
	certificates bool
}

// clientKinds are grpc-go, grpc-js, grpc-java, and C-core, which is the base of
// Python's. All of them do federation: authorities in the bootstrap, and xdstp names.
func clientKinds() []clientKind {
	return []clientKind{
		{name: "grpc-go", missing: func() error { return nil }, start: startGoClient, fallsBack: true, certificates: true},
		// Its xDS client uses the first server of a bootstrap only, and knows no credentials but
		// google_default and insecure.
		{name: "grpc-js", missing: missingNode, start: startNodeClient},
		// It reads no files of a certificate by itself: the program has a provider that does.
		{name: "grpc-java", missing: missingJava, start: startJavaClient, fallsBack: true, certificates: true},
		{name: "grpc-python", missing: missingPython, start: startPythonClient, fallsBack: true, certificates: true},
	}
}

// goClient is grpc-go's client, in this process.
type goClient struct {
	resolver resolver.Builder
	timeout  time.Duration

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by target
}

// startGoClient gives each client a resolver with a bootstrap of its own, so that no
// test meets the xDS client of another.
func startGoClient(t testing.TB, bootstrap []byte, timeout time.Duration) rpcClient {
	t.Helper()
	resolver, err := xds.NewXDSResolverWithConfigForTesting(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	c := &goClient{resolver: resolver, timeout: timeout, conns: make(map[string]*grpc.ClientConn)}
	t.Cleanup(c.close)
	return c
}

// call repeats an RPC that fell into a gap of grpc-go's own: its routes change a
// moment before its balancers do (updateResolverStateAndUnlock), and an RPC
// between the two is routed to a cluster that the balancers have not heard of. No
// server has a part in that.
func (c *goClient) call(target string) outcome {
	conn, err := c.conn(target)
	if err != nil {
		return outcome{Code: status.Code(err), Message: err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	for {
		var question, answer []byte
		err := conn.Invoke(ctx, backendMethod, &question, &answer, grpc.ForceCodec(bytesCodec{}))
		o := outcome{Code: status.Code(err), Message: status.Convert(err).Message(), Backend: string(answer)}
		if !strings.HasPrefix(o.Message, "unknown cluster selected for RPC") {
			return o
		}
	}
}

// conn opens a channel for each target once.
func (c *goClient) conn(target string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.conns[target]; conn != nil {
		return conn, nil
	}
	conn, err := grpc.NewClient(target, grpc.WithResolvers(c.resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	c.conns[target] = conn
	return conn, nil
}

func (c *goClient) version() string { return grpc.Version }

func (c *goClient) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	clear(c.conns)
}

func missingNode() error {
	if _, err := exec.LookPath("node"); err != nil {
		return errors.New("node is not in PATH: install Node.js 18 or newer")
	}
	if _, err := os.Stat(grpcJSFolder + "/node_modules/@grpc/grpc-js-xds"); errors.Is(err, fs.ErrNotExist) {
		return errors.New("the packages of integration/" + grpcJSFolder + " are not installed: make integration installs them")
	}
	return nil
}

func startNodeClient(t testing.TB, bootstrap []byte, timeout time.Duration) rpcClient {
	t.Helper()
	return startChild(t, bootstrap, timeout, "node", grpcJSFolder+"/client.js")
}

// venvPython is the Python of the virtual environment, by its path from this folder.
const venvPython = pythonFolder + "/venv/bin/python"

func missingPython() error {
	if err := exec.Command(venvPython, "-c", "import grpc").Run(); err != nil {
		return errors.New("integration/" + venvPython + " has no grpc: make integration installs it")
	}
	return nil
}

func startPythonClient(t testing.TB, bootstrap []byte, timeout time.Duration) rpcClient {
	t.Helper()
	return startChild(t, bootstrap, timeout, venvPython, pythonFolder+"/client.py")
}

func missingJava() error { return missingJavaProgram(javaFolder) }

func startJavaClient(t testing.TB, bootstrap []byte, timeout time.Duration) rpcClient {
	t.Helper()
	return startChild(t, bootstrap, timeout, javaCommand(javaFolder, "client")...)
}
