package integration

import (
	"context"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/protobuf/types/known/anypb"
)

// A control plane that takes "*" for the wildcard, and ignores a first request that names nothing. Direct, a client that
// asks for "*" gets everything. Behind the relay it does too, in either form of the wildcard.
func TestExplicitWildcardOnly_SUB14(t *testing.T) {
	s := &plane.Script{Delta: func(g plane.DeltaStream) error {
		for {
			r, err := g.Recv()
			if err != nil {
				return err
			}
			if !slices.Contains(r.GetResourceNamesSubscribe(), "*") {
				continue
			}
			if err := g.Send(&discovery.DeltaDiscoveryResponse{TypeUrl: r.GetTypeUrl(), Nonce: "n", Resources: []*discovery.Resource{
				{Name: "c", Version: "1", Resource: &anypb.Any{TypeUrl: clusterType, Value: contents(clusterType, "c", "1", "")}},
			}}); err != nil {
				return err
			}
		}
	}}
	lis := ports.Listen(t)
	s.Serve(lis)
	t.Cleanup(s.Stop)
	direct := lis.Addr().String()
	for name, run := range map[string]struct {
		form  config.Wildcard // of the relay; "": there is none
		names []string
	}{
		"direct":               {"", []string{"*"}},
		"relay, explicit":      {config.ExplicitWildcard, []string{"*"}},
		"relay, legacy client": {config.ExplicitWildcard, nil},
		"relay, auto":          {config.AutoWildcard, nil},
	} {
		t.Run(name, func(t *testing.T) {
			addr := direct
			if run.form != "" {
				addr = startRelay(t, func(c *config.Config) { c.Upstreams[0].Wildcard = run.form }, direct).addr
			}
			conn, err := xdsclient.Dial("passthrough:///"+addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			c := xdsclient.New(xdsclient.Options{Form: xdsclient.Incremental, Conn: conn, Node: &corev3.Node{Id: "n"}})
			c.Subscribe(clusterType, run.names...)
			ctx, cancel := context.WithTimeout(t.Context(), patienceOf(t))
			defer cancel()
			followed := make(chan error, 1)
			go func() { followed <- c.Follow(ctx, xdsclient.Backoff{}, nil) }()
			if err := c.Wait(ctx, func(c *xdsclient.Client) bool { _, ok := c.Get(clusterType, "c"); return ok }); err != nil {
				t.Errorf("the client did not get the cluster: %v", err)
			}
			cancel()
			<-followed
		})
	}
}
