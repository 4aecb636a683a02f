package stateclient_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/controlplane"
	"github.com/xdsrelay/xdsrelay/internal/stateclient"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// A client that polls all clusters until there is one.
func ExampleNewREST() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	plane := controlplane.NewSnapshot()
	defer plane.Close()
	if err := plane.Start(ctx, "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := plane.UpdateResource("checkout", &clusterv3.Cluster{Name: "checkout"}); err != nil {
		fmt.Println(err)
	}
	server := httptest.NewServer(plane.REST())
	defer server.Close()

	clusters, _ := keyer.TypeURL("cds")
	client := stateclient.NewREST(&http.Client{}, server.URL, xdsclient.Options{
		Node: &corev3.Node{Id: "example"},
		OnResponse: func(r *xdsclient.Response) error {
			for _, ch := range r.Changes {
				fmt.Println(ch.Kind, ch.Name)
			}
			cancel() // enough for an example
			return nil
		},
	})
	client.Subscribe(clusters)
	fmt.Println(client.Follow(ctx, xdsclient.DefaultBackoff(), nil))
	// Output:
	// added checkout
	// context canceled
}
