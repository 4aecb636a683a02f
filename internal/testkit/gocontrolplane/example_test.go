package gocontrolplane_test

import (
	"context"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
)

// A control plane that crashes and comes back with what it had, and more.
func Example() {
	ctx := context.Background()
	plane := gocontrolplane.New()
	defer plane.Close()
	if err := plane.Start(ctx, "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := plane.UpdateResource("a", &clusterv3.Cluster{Name: "a"}); err != nil {
		fmt.Println(err)
	}
	plane.Stop()
	if _, err := plane.UpdateResource("b", &clusterv3.Cluster{Name: "b"}); err != nil {
		fmt.Println(err)
	}
	if err := plane.Restart(ctx); err != nil {
		fmt.Println(err)
	}
	clusters := plane.Versions(gocontrolplane.TypeURL((*clusterv3.Cluster)(nil)))
	fmt.Println(len(clusters), "clusters,", plane.Stats().Opened, "streams so far")
	// Output: 2 clusters, 0 streams so far
}
