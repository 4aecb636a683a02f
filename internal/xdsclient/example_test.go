package xdsclient_test

import (
	"context"
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// A client that follows all clusters, and comes back whenever its stream ends.
func ExampleClient_Follow() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	plane := gocontrolplane.New()
	defer plane.Close()
	if err := plane.Start(ctx, "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	_, _ = plane.UpdateResource("checkout", &clusterv3.Cluster{Name: "checkout"})
	conn, err := xdsclient.Dial("passthrough:///"+plane.Addr(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()

	client := xdsclient.New(xdsclient.Options{
		Conn: conn,
		Node: &corev3.Node{Id: "example"},
		OnResponse: func(r *xdsclient.Response) error {
			for _, ch := range r.Changes {
				fmt.Println(ch.Kind, ch.Name)
			}
			cancel() // enough for an example
			return nil
		},
	})
	clusters, _ := keyer.TypeURL("cds")
	client.Subscribe(clusters)
	err = client.Follow(ctx, xdsclient.DefaultBackoff(), func(reason error, delay time.Duration) error {
		fmt.Println("stream lost:", reason, "next try in", delay)
		return nil // go on
	})
	fmt.Println(err)
	// Output:
	// added checkout
	// context canceled
}
