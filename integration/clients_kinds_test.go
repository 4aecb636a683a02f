package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
)

// The client for Node, and Debian's Python, which is not always the first in the
// path.
const (
	grpcJSFolder = "testdata/grpcjs"
	python       = "/usr/bin/python3"
)

// clientKind is an implementation of gRPC with its own xDS client.
type clientKind struct {
	name string
	// missing says what this machine lacks for it; nil: nothing.
	missing func() error
	// start opens a channel. The client ends by its close.
	start func(t testing.TB, bootstrap []byte, target string) rpcClient
}

// clientKinds are grpc-go, grpc-js and C-core, which is what Python's stands on.
// All three do federation, which is authorities in the bootstrap and xdstp names.
func clientKinds() []clientKind {
	return []clientKind{
		// Federation is always on.
		{name: "grpc-go", missing: func() error { return nil }, start: startGoClient},
		// Federation is on unless GRPC_EXPERIMENTAL_XDS_FEDERATION says false.
		{name: "grpc-js", missing: missingNode, start: startNodeClient},
		// Federation is off in 1.51 unless GRPC_EXPERIMENTAL_XDS_FEDERATION says true:
		// "authority not found", else.
		{name: "grpc-python", missing: missingPython, start: startPythonClient},
	}
}

// goClient is grpc-go's client, in this process.
type goClient struct{ conn *grpc.ClientConn }

// startGoClient gives each channel a resolver with a bootstrap of its own, so
// that no test meets the xDS client of another.
func startGoClient(t testing.TB, bootstrap []byte, target string) rpcClient {
	t.Helper()
	resolver, err := xds.NewXDSResolverWithConfigForTesting(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(target, grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	return goClient{conn}
}

// call repeats an RPC that fell into a gap of grpc-go's own: its routes change a
// moment before its balancers do (updateResolverStateAndUnlock), and an RPC
// between the two is routed to a cluster that the balancers have not heard of. No
// server has a part in that.
func (c goClient) call() outcome {
	ctx, cancel := context.WithTimeout(context.Background(), rpcTimeout)
	defer cancel()
	for {
		var question, answer []byte
		err := c.conn.Invoke(ctx, backendMethod, &question, &answer, grpc.ForceCodec(bytesCodec{}))
		o := outcome{Code: status.Code(err), Message: status.Convert(err).Message(), Backend: string(answer)}
		if !strings.HasPrefix(o.Message, "unknown cluster selected for RPC") {
			return o
		}
	}
}

func (c goClient) version() string { return grpc.Version }

func (c goClient) close() { _ = c.conn.Close() }

func missingNode() error {
	if _, err := exec.LookPath("node"); err != nil {
		return errors.New("node is not in PATH: install Node.js 18 or newer")
	}
	if _, err := os.Stat(grpcJSFolder + "/node_modules/@grpc/grpc-js-xds"); errors.Is(err, fs.ErrNotExist) {
		return errors.New("the packages of integration/" + grpcJSFolder + " are not installed: make integration installs them")
	}
	return nil
}

func startNodeClient(t testing.TB, bootstrap []byte, target string) rpcClient {
	t.Helper()
	return startChild(t, bootstrap, target, nil, "node", grpcJSFolder+"/client.js")
}

func missingPython() error {
	if err := exec.Command(python, "-c", "import grpc").Run(); err != nil {
		return fmt.Errorf("%s has no grpc: make integration installs Debian's python3-grpcio", python)
	}
	return nil
}

func startPythonClient(t testing.TB, bootstrap []byte, target string) rpcClient {
	t.Helper()
	federation := []string{"GRPC_EXPERIMENTAL_XDS_FEDERATION=true"}
	return startChild(t, bootstrap, target, federation, python, "testdata/python/client.py")
}
