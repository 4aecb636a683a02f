// Istio runs Istio's discovery server with configuration that it is given, for the
// end-to-end tests. It is the server that istiod has, with the memory store and the fake
// Kubernetes of Istio's own tests around it, because pilot-discovery does not start without
// a Kubernetes.
//
//	server PORT
//
// It listens on 127.0.0.1, in plaintext. The first line of the output is {"version": …}. Each
// line of the input, {"config": …}, has Istio's resources in YAML, which are created or
// replaced. It is answered with {"done": true} or {"error": …}. The end of the input ends the
// process.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"

	"google.golang.org/protobuf/types/known/wrapperspb"
	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/log"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, input io.Reader, output io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: server PORT")
	}
	options := log.DefaultOptions()
	options.OutputPaths = []string{"stderr"} // the output is for the test
	if err := log.Configure(options); err != nil {
		return err
	}
	// Certificates come from an agent, and there is none here.
	plaintext := mesh.DefaultMeshConfig()
	plaintext.EnableAutoMtls = wrapperspb.Bool(false)
	server := xds.NewFakeDiscoveryServer(failer{}, xds.FakeOptions{
		MeshConfig:      plaintext,
		ListenerBuilder: func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort("127.0.0.1", args[0])) },
	})
	lines, replies := json.NewDecoder(input), json.NewEncoder(output)
	if err := replies.Encode(map[string]string{"version": version()}); err != nil {
		return err
	}
	for {
		var line struct{ Config string }
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		reply := map[string]any{"done": true}
		if err := apply(server.Store(), line.Config); err != nil {
			reply = map[string]any{"error": err.Error()}
		}
		if err := replies.Encode(reply); err != nil {
			return err
		}
	}
}

// apply creates or replaces what the YAML documents hold.
func apply(store model.ConfigStoreController, text string) error {
	configs, _, err := crd.ParseInputs(text)
	if err != nil {
		return err
	}
	for _, c := range configs {
		if err := put(store, c); err != nil {
			return fmt.Errorf("%s: %w", c.Key(), err)
		}
	}
	return nil
}

func put(store model.ConfigStoreController, c config.Config) error {
	old := store.Get(c.GroupVersionKind, c.Name, c.Namespace)
	if old == nil {
		_, err := store.Create(c)
		return err
	}
	c.ResourceVersion = old.ResourceVersion
	_, err := store.Update(c)
	return err
}

// version is that of Istio's module.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "istio.io/istio" {
			return module.Version
		}
	}
	return "unknown"
}

// failer is what Istio's test server takes for a test. A failure ends the process.
type failer struct{}

func (failer) Fail()                             { failer{}.Fatal("failed") }
func (failer) FailNow()                          { failer{}.Fatal("failed") }
func (failer) Fatal(args ...any)                 { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }
func (failer) Fatalf(format string, args ...any) { failer{}.Fatal(fmt.Sprintf(format, args...)) }
func (failer) Log(args ...any)                   { fmt.Fprintln(os.Stderr, args...) }
func (failer) Logf(format string, args ...any)   { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (failer) Helper()                           {}
func (failer) Cleanup(func())                    {} // the end of the process cleans up
func (failer) Skip(args ...any)                  { failer{}.Fatal(args...) }

func (failer) TempDir() string {
	folder, err := os.MkdirTemp("", "istio")
	if err != nil {
		failer{}.Fatal(err)
	}
	return folder
}
