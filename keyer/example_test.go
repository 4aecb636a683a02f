package keyer_test

import (
	"fmt"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func ExampleParse() {
	n, err := keyer.Parse("xdstp://some.control.plane/envoy.config.route.v3.RouteConfigurationCollection/foo/bar?shard_id=1234&direction=inbound#entry=baz")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n.Authority)
	fmt.Println(n.Type)
	fmt.Println(n.ID)
	for key, value := range n.Context() {
		fmt.Println(key, "is", value)
	}
	fmt.Println(n.Entry())
	fmt.Println(n.Canonical())
	// Output:
	// some.control.plane
	// envoy.config.route.v3.RouteConfigurationCollection
	// foo/bar
	// direction is inbound
	// shard_id is 1234
	// baz
	// xdstp://some.control.plane/envoy.config.route.v3.RouteConfigurationCollection/foo/bar?direction=inbound&shard_id=1234
}

func ExampleParse_refused() {
	_, err := keyer.Parse("xdstp://a/T/x?k=1&k=2")
	fmt.Println(err)
	// Output:
	// xdstp name "xdstp://a/T/x?k=1&k=2" at byte 18: the context key "k" occurs twice
}

func ExampleKey() {
	for _, name := range []string{"some-cluster", "xdstp://a/T/%7Efoo?y=1&x=2", "xdstp://a/T/~foo?x=2&y=1#alt=xdstp://b/T/x"} {
		key, err := keyer.Key(name)
		fmt.Println(key, err)
	}
	// Output:
	// some-cluster <nil>
	// xdstp://a/T/~foo?x=2&y=1 <nil>
	// xdstp://a/T/~foo?x=2&y=1 <nil>
}

func ExampleGlobOf() {
	fmt.Println(keyer.GlobOf("xdstp://a/T/dir/foo?x=2"))
	fmt.Println(keyer.GlobOf("xdstp://a/T/foo"))
	// Output:
	// xdstp://a/T/dir/*?x=2
	// xdstp://a/T/*
}

func ExampleName_Alternatives() {
	n, err := keyer.Parse("xdstp://cloud/T/foo#alt=xdstp://onprem/T/bar%23alt=xdstp://last/T/baz")
	if err != nil {
		fmt.Println(err)
		return
	}
	for alternative := range n.Alternatives() {
		fmt.Println(alternative.Resolved())
	}
	// Output:
	// xdstp://cloud/T/foo
	// xdstp://onprem/T/bar
	// xdstp://last/T/baz
}

func ExampleMemberOf() {
	const glob = "xdstp://a/T/dir/*#alt=xdstp://b/T/other/*"
	member := keyer.MemberOf(glob, "xdstp://b/T/other/foo")
	fmt.Println(member)
	fmt.Println(keyer.GlobOf(member))
	fmt.Println(keyer.Respell(glob, member))
	// Output:
	// xdstp://a/T/dir/foo#alt=xdstp://b/T/other/*
	// xdstp://a/T/dir/*#alt=xdstp://b/T/other/*
	// xdstp://a/T/dir/foo
}

func ExampleLocator() {
	fmt.Println(keyer.Locator(&xdscorev3.ResourceLocator{
		Authority:    "some-authority",
		ResourceType: "envoy.config.listener.v3.Listener",
		Id:           "my listeners/*",
		ContextParamSpecifier: &xdscorev3.ResourceLocator_ExactContext{
			ExactContext: &xdscorev3.ContextParams{Params: map[string]string{"node_type": "ingress"}},
		},
	}))
	// Output:
	// xdstp://some-authority/envoy.config.listener.v3.Listener/my%20listeners/*?node_type=ingress <nil>
}

func ExampleRespell() {
	fmt.Println(keyer.Respell("xdstp://a/T/dir/*?y=1&x=2", "xdstp://a/T/dir/foo?x=2&y=1"))
	// Output:
	// xdstp://a/T/dir/foo?y=1&x=2
}

func ExampleCheckType() {
	n, err := keyer.Parse("xdstp://a/envoy.config.cluster.v3.Cluster/x")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(keyer.CheckType(n, "type.googleapis.com/envoy.config.cluster.v3.Cluster"))
	// Output:
	// <nil>
}
