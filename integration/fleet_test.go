package integration

import (
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

var (
	fleetSteps = flag.String("fleet.steps", "200", "numbers of isolated clients of TestFleet, one after the other")
	// By default a relay that may have 20,000 files open takes 7,500 connections of one address.
	fleetSockets = flag.Int("fleet.sockets", 6000, "connections of its clients; further ones share them")
)

// startPlainPlane starts a control plane with one cluster for everybody.
func startPlainPlane(t *testing.T) string {
	t.Helper()
	p := newPlane(t)
	p.set(clusterType, "c", true)
	return p.addr
}

// TestFleet has isolated clients of one identity come through one address to a relay of which only the
// aggregation is configured, so many as there is room for on the machine. No default refuses any, and memory
// grows with their number. They come as fast as they are served.
func TestFleet_LIM1(t *testing.T) {
	const atATime = 64
	r := startOwnRelay(t, fmt.Sprintf(`
server: {listen: %%q, drain: 1s}
aggregation: {otherwise: isolate}
upstreams: [{name: plane, default: true, endpoints: [%q]}]`, startPlainPlane(t)))
	var conns []*grpc.ClientConn
	fleet := newJoiners(t)
	room, there := make(chan struct{}, atATime), 0
	fleet.first = func() { <-room }
	for step := range strings.SplitSeq(*fleetSteps, ",") {
		n, err := strconv.Atoi(step)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for ; there < n; there++ {
			if len(conns) < *fleetSockets {
				conn, err := grpc.NewClient("passthrough:///"+r.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				conns = append(conns, conn)
			}
			room <- struct{}{}
			fleet.join(conns[there%len(conns)], fmt.Sprint("envoy-", there), clusterType)
		}
		fleet.all(n, 5*time.Minute)
		t.Logf("%d isolated clients over %d connections: %v for the last ones; %d MiB at most", n, len(conns), time.Since(began).Round(time.Millisecond), r.peak()>>20)
	}
	if is := int(r.sum(t, "xdsrelay_downstream_streams", "")); is != there {
		t.Errorf("LIM-1: %d streams, want %d", is, there)
	}
	if n := r.sum(t, "xdsrelay_downstream_limited_total", "") + r.sum(t, "xdsrelay_admission_refused_total", ""); n > 0 {
		t.Errorf("LIM-1: defaults were in clients' way %v times:\n%s", n, strings.Join(regexp.MustCompile(`(?m)^xdsrelay_\w+_(?:limited|refused)_total\{.*[1-9]$`).FindAllString(r.page(), -1), "\n"))
	}
	if n := fleet.hinted.Load() + fleet.ended.Load(); n > 0 {
		t.Errorf("LIM-1: %d streams ended", n)
	}
}
