package demo

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
)

const (
	clusterType  = resourcev3.ClusterType
	endpointType = resourcev3.EndpointType
)

// The world's size. A client follows all clusters and the endpoints of some.
const (
	clusterCount = 100
	lateCount    = 5 // clusters that exist only after the control plane's return, and as many are gone then
	picks        = 10
	perCluster   = 8 // endpoints
)

// world is what the control plane serves. It is owned by the goroutine that
// plays.
type world struct {
	plane      *gocontrolplane.ControlPlane
	published  *published
	updates    atomic.Int64
	generation int
	first      int // the lowest number of a cluster; there are clusterCount from there
	turn       int // which of them changes next
}

// published says when a version was given to the control plane. Clients ask it
// from their own goroutines.
type published struct{ times sync.Map } // version → time.Time

func (p *published) when(version string) (time.Time, bool) {
	at, ok := p.times.Load(version)
	if !ok {
		return time.Time{}, false
	}
	return at.(time.Time), true
}

func name(i int) string { return fmt.Sprintf("cluster-%03d", i) }

// wanted are the clusters whose endpoints a client follows, among them such that
// do not exist yet (SUB-9).
func wanted(client int) []string {
	const all = clusterCount + lateCount
	names := make([]string, picks)
	for i := range names {
		names[i] = name((client + i*all/picks) % all)
	}
	return names
}

// fill sets what there is in the beginning.
func (w *world) fill() error {
	for i := range clusterCount {
		if err := w.create(i); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) create(i int) error {
	if _, err := w.plane.UpdateResource(name(i), cluster(name(i), w.next())); err != nil {
		return err
	}
	_, err := w.plane.UpdateResource(name(i), endpoints(name(i), w.next()))
	return err
}

// changeEndpoints changes those of one cluster after the other, and notes when.
func (w *world) changeEndpoints() error {
	const stride = 37 // so that neighbours are not changed in a row
	w.turn = (w.turn + stride) % clusterCount
	n := name(w.first + w.turn)
	return w.publish(n, endpoints(n, w.next()))
}

// changeCluster changes the cluster whose turn it is, which every client has.
func (w *world) changeCluster() error {
	n := name(w.first + w.turn)
	return w.publish(n, cluster(n, w.next()))
}

func (w *world) next() int {
	w.generation++
	return w.generation
}

func (w *world) publish(name string, message proto.Message) error {
	version, err := gocontrolplane.Version(message)
	if err != nil {
		return err
	}
	// Before the update: a client may have it before UpdateResource returns.
	w.published.times.Store(version, time.Now())
	w.updates.Add(1)
	_, err = w.plane.UpdateResource(name, message)
	return err
}

// meanwhile is what happens to the world while the control plane is away: some
// clusters are gone, some are new, a quarter of the others have other endpoints.
// None of it is noted, since how long it takes to reach clients is how long the
// control plane is away.
func (w *world) meanwhile() (changed int, err error) {
	for i := range clusterCount {
		switch {
		case i < lateCount:
			if err := w.plane.DeleteResource(clusterType, name(i)); err != nil {
				return 0, err
			}
			if err := w.plane.DeleteResource(endpointType, name(i)); err != nil {
				return 0, err
			}
		case i%4 == 0:
			changed++
			if _, err := w.plane.UpdateResource(name(i), endpoints(name(i), w.next())); err != nil {
				return 0, err
			}
		}
	}
	for i := range lateCount {
		if err := w.create(clusterCount + i); err != nil {
			return 0, err
		}
	}
	w.first = lateCount
	return changed, nil
}

// truth is what clients are to hold.
type truth struct{ clusters, endpoints map[string]string }

func (w *world) truth() truth {
	return truth{w.plane.Versions(clusterType), w.plane.Versions(endpointType)}
}

// of is the truth for a client that follows these endpoints.
func (t truth) of(names []string) truth {
	some := maps.Clone(t.endpoints)
	maps.DeleteFunc(some, func(name, _ string) bool { return !slices.Contains(names, name) })
	return truth{t.clusters, some}
}

func cluster(name string, generation int) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
			ResourceApiVersion:    corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		}},
		ConnectTimeout: durationpb.New(time.Second),
		LbPolicy:       clusterv3.Cluster_LEAST_REQUEST,
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: wrapperspb.UInt32(uint32(1000 + generation)),
		}}},
	}
}

func endpoints(name string, generation int) *endpointv3.ClusterLoadAssignment {
	members := make([]*endpointv3.LbEndpoint, perCluster)
	for i := range members {
		n := generation*perCluster + i
		members[i] = &endpointv3.LbEndpoint{
			HealthStatus: corev3.HealthStatus_HEALTHY,
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
					Address:       fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255),
					PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 8080},
				}}},
			}},
		}
	}
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{
			Locality:    &corev3.Locality{Region: "demo", Zone: "a"},
			LbEndpoints: members,
		}},
	}
}
