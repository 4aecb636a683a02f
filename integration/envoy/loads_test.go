package envoy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/loads"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"google.golang.org/protobuf/types/known/durationpb"
)

// What a soak changes of the test of load reports: how many Envoys there are, and for how
// long they make requests.
const (
	loadEnvoysVariable = "XDSRELAY_LOAD_ENVOYS"
	loadTimeVariable   = "XDSRELAY_LOAD_TIME"
)

// reporters are Envoys that report their load to a relay, and the control plane behind it.
type reporters struct {
	t       *testing.T
	binary  string
	plane   *plane.Plane
	loads   *loads.Server
	relay   *relayProcess
	client  *traffic.Client
	envoys  []*envoyproc.Envoy
	started int
	made    map[string]float64 // requests, as the control plane is to be told of them
}

// loadPatience is how long what must happen may take: the machine may be busy with other things
// beside the Envoys.
const loadPatience = 2 * time.Minute

// dropCategory is what requests to the cluster "two" are dropped for, some of them.
const dropCategory = "throttle"

// zoned are endpoints of a cluster in two zones, a and b. Their answers are the cluster's name and
// the zone. A part of the requests is dropped, in percent.
func zoned(t *testing.T, cluster string, drops uint32) *endpointv3.ClusterLoadAssignment {
	t.Helper()
	all := &endpointv3.ClusterLoadAssignment{ClusterName: cluster}
	for _, zone := range []string{"a", "b"} {
		part := endpoints(cluster, traffic.Backend(t, cluster+" "+zone)).GetEndpoints()
		part[0].Locality = &corev3.Locality{Zone: zone}
		all.Endpoints = append(all.Endpoints, part...)
	}
	if drops > 0 {
		all.Policy = &endpointv3.ClusterLoadAssignment_Policy{DropOverloads: []*endpointv3.ClusterLoadAssignment_Policy_DropOverload{{
			Category: dropCategory, DropPercentage: &typev3.FractionalPercent{Numerator: drops},
		}}}
	}
	return all
}

func newReporters(t *testing.T) *reporters {
	t.Helper()
	const interval = 250 * time.Millisecond
	r := &reporters{
		t: t, binary: binary(t), loads: loads.New(interval), client: traffic.NewClient().Within(loadPatience),
		made: make(map[string]float64),
	}
	// Not all clusters: an Envoy's streams to the relay would be among them.
	r.loads.Want(&loadv3.LoadStatsResponse{Clusters: []string{"one", "two"}, LoadReportingInterval: durationpb.New(interval)})
	r.plane = plane.Start(t, plane.GoControlPlane(), r.loads.Option())
	r.relay = startRelay(t, config.AggregatedDeltaGRPC, r.plane.Addr(), false, nil)
	of := resources{variant: envoyproc.Variant{Delta: true}}
	for name, drops := range map[string]uint32{"one": 0, "two": 30} {
		r.plane.Set(of.cluster(name), zoned(t, name, drops), of.listener(name, name), route(name, name))
	}
	return r
}

// start starts an Envoy, and waits until it counts what it will report.
func (r *reporters) start() {
	r.t.Helper()
	r.started++
	b := envoyproc.Variant{Delta: true}.Bootstrap(fmt.Sprint("envoy-", r.started), r.relay.addr)
	b.ClusterManager = &bootstrapv3.ClusterManager{LoadStatsConfig: &corev3.ApiConfigSource{
		ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
		GrpcServices: []*corev3.GrpcService{envoyproc.Service("xds")},
	}}
	e := envoyproc.Start(r.t, r.binary, b)
	r.need("an Envoy is live", e.Live)
	for _, name := range []string{"one", "two"} {
		r.need("an Envoy serves", func() bool { return e.Addr(name) != "" && active(e, name)() })
	}
	// It counts for a cluster from the report on that comes after the cluster.
	const reports = "load_reporter.responses"
	before := e.Stat(reports)
	r.need("an Envoy reports", func() bool { return e.Stat(reports) >= before+2 })
	r.envoys = append(r.envoys, e)
}

func (r *reporters) need(what string, cond func() bool) {
	r.t.Helper()
	if _, held := wait.Until(loadPatience, cond); !held {
		r.t.Fatalf("%s: never", what)
	}
}

// request makes a request by each Envoy to each cluster, and notes what the control plane is to be
// told of it: who answered, or what it was dropped for.
func (r *reporters) request() {
	r.t.Helper()
	for _, e := range r.envoys {
		for _, name := range []string{"one", "two"} {
			o := r.client.Get(context.Background(), e.Addr(name), "", "/")
			cluster, zone, _ := strings.Cut(o.Body, " ")
			switch {
			case o.Status == http.StatusOK && cluster == name:
				for _, field := range []string{"issued", "successful"} {
					r.made[fmt.Sprintf("%s///%s p0 %s", name, zone, field)]++
				}
			case name == "two" && o.Status == http.StatusServiceUnavailable && o.Body == "drop overload":
				r.made[name+"/ dropped"]++
				r.made[name+"/ dropped "+dropCategory]++
			default:
				r.t.Fatalf("a request to %s: %v", name, o)
			}
		}
	}
}

// settle waits until the control plane was told of all requests that were made.
func (r *reporters) settle(when string) {
	r.t.Helper()
	told := func() loads.Sums { return r.loads.Book.Now()["xdsrelay"] }
	if _, held := wait.Until(loadPatience, func() bool { return maps.Equal(told(), r.made) }); !held {
		r.t.Fatalf("%s: the control plane was told %v of %v", when, told(), r.made)
	}
}

// Real Envoys report what they do to a relay. While they come and go, and the stream to the
// control plane breaks, that is told of each request once.
func TestLoadReports_LRS1(t *testing.T) {
	t.Parallel()
	r := newReporters(t)
	envoys, span := loadTest(t)
	for range envoys {
		r.start()
	}
	begun := time.Now()
	for round := 0; round < 4 || time.Since(begun) < span; round++ {
		for range 10 {
			r.request()
		}
		r.settle(fmt.Sprint("round ", round))
		switch round % 4 {
		case 0: // nothing is under way, and so nothing can be lost
			_, ever := r.loads.Streams()
			r.loads.Break()
			r.need("another stream", func() bool { _, now := r.loads.Streams(); return now > ever })
		case 1:
			r.envoys[0].Kill()
			r.envoys = r.envoys[1:]
		case 2:
			r.start()
		case 3:
			r.restart()
		}
	}
	for _, fault := range r.loads.Faults() {
		t.Error(fault)
	}
}

// restart has the relay begin anew, and waits until all Envoys report again.
func (r *reporters) restart() {
	r.t.Helper()
	const answers = "load_reporter.requests"
	before := make(map[*envoyproc.Envoy]int64)
	for _, e := range r.envoys {
		before[e] = e.Stat(answers)
	}
	r.relay.restart()
	for _, e := range r.envoys {
		r.need("an Envoy reports again", func() bool { return e.Stat(answers) > before[e] })
	}
}

// loadTest is how many Envoys report, and for how long at least.
func loadTest(t *testing.T) (envoys int, span time.Duration) {
	t.Helper()
	envoys = 3
	var err error
	if n := os.Getenv(loadEnvoysVariable); n != "" {
		if envoys, err = strconv.Atoi(n); err != nil {
			t.Fatal(err)
		}
	}
	if d := os.Getenv(loadTimeVariable); d != "" {
		if span, err = time.ParseDuration(d); err != nil {
			t.Fatal(err)
		}
	}
	return envoys, span
}
