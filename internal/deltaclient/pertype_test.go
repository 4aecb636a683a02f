package deltaclient

import (
	"errors"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// clusters is a script that serves clusters by themselves.
type clusters struct {
	clusterservice.UnimplementedClusterDiscoveryServiceServer
	*script
}

func (s clusters) DeltaClusters(g clusterservice.ClusterDiscoveryService_DeltaClustersServer) error {
	return s.DeltaAggregatedResources(g)
}

func TestVAR2_oneStreamPerType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		var opened []string
		c := New(serve(t, s, clusters{script: s}), xdsclient.Options{
			PerType: true, Node: &corev3.Node{Id: "n"}, OnStream: func(typeURL string) { opened = append(opened, typeURL) },
		})
		c.Subscribe(clusterType, "a")
		stop := running(t, c)
		expect(t, "requests", []string{"Cluster node=n +a"}, s.next())
		s.send(t, response("1", "a@1"))
		expect(t, "answer", []string{"Cluster ack=1"}, s.next())
		other := response("2", "e@1")
		other.TypeUrl = endpointType
		s.send(t, other)
		const reason = `the resource "e" is a "` + clusterType + `" in a response for "` + endpointType + `"`
		expect(t, "ACK-6 another type is refused in the stream's own", []string{"Cluster nack=2(" + reason + ")"}, s.next())
		expect(t, "streams opened", []string{clusterType}, opened)

		_ = stop()
		stop = running(t, c)
		expect(t, "RES-12 requests", []string{"Cluster node=n +a a@1"}, s.next())

		c.Subscribe(endpointType, "e") // is not served there
		synctest.Wait()
		err := stop()
		of, ok := errors.AsType[*xdsclient.StreamError](err)
		if !ok || of.TypeURL != endpointType || status.Code(err) != codes.Unimplemented {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestServes(t *testing.T) {
	ads, perType := New(nil, xdsclient.Options{}), New(nil, xdsclient.Options{PerType: true})
	for _, c := range []*xdsclient.Client{ads, perType} {
		if err := c.Serves(resource.VirtualHostType); err != nil {
			t.Error(err)
		}
	}
	if err := ads.Serves(resource.RateLimitConfigType); err != nil {
		t.Error(err)
	}
	const want = resource.RateLimitConfigType + " cannot be asked for: there is no incremental per-type service for it"
	if err := perType.Serves(resource.RateLimitConfigType); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	perType.Subscribe(resource.RateLimitConfigType)
	if _, ok := errors.AsType[*xdsclient.UnservedError](perType.Run(t.Context())); !ok {
		t.Error("a type without a service is followed")
	}
}
