package integration

import (
	"crypto/tls"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

var (
	atOnceClients   = flag.Int("atonce.clients", 300, "clients that TestClientsAtOnce has come at once")
	atOnceAdmission = flag.String("atonce.admission", "auto", "limits.admission of its relay")
)

// pulse changes one resource again and again, and notes how long each change takes to each client.
type pulse struct {
	plane *testPlane
	name  string

	mu      sync.Mutex
	sent    []time.Time
	delays  []time.Duration
	arrived map[string]string // the last version, by client
}

// beat changes it.
func (p *pulse) beat() {
	p.mu.Lock()
	version := fmt.Sprint("p", len(p.sent))
	p.sent = append(p.sent, time.Now())
	p.mu.Unlock()
	p.plane.Apply(plane.Change{Set: []plane.Resource{{Name: p.name, Version: version, Unlisted: true, Message: message(endpointType, p.name, version, "")}}})
}

// took notes a response.
func (p *pulse) took(node string, r *discovery.DeltaDiscoveryResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range r.GetResources() {
		var n int
		if _, err := fmt.Sscanf(one.GetVersion(), "p%d", &n); err == nil && n < len(p.sent) {
			p.delays = append(p.delays, time.Since(p.sent[n]))
			p.arrived[node] = one.GetVersion()
		}
	}
}

// measured gives the delays since the last call.
func (p *pulse) measured() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.delays
	p.delays = nil
	return all
}

// TestClientsAtOnce has a fleet with mutual TLS come at once to a relay with 1 GiB: all are served, the memory
// is enough, and those that are connected get their updates meanwhile. It reports times, and asserts none.
func TestClientsAtOnce_LIM1_LIM3(t *testing.T) {
	const keepers, names, limit = 20, 20, 1 << 30
	p := newPlane(t)
	p.fill(names)
	files, fleet := pki.NewFolder(t), pki.NewAuthority(t, "fleet")
	cert, key := files.PutPair("relay", fleet.Server(relayHost))
	r := startOwnRelay(t, fmt.Sprintf(`
server: {listen: %%q, drain: 1s, tls: {cert_file: %q, key_file: %q, client_ca_file: %q}}
aggregation: {otherwise: share}
limits: {memory: 1GiB, admission: %s}
upstreams: [{name: plane, default: true, endpoints: [%q]}]`, cert, key, files.PutCA("fleet", fleet), *atOnceAdmission, p.addr))
	shown := fleet.Client("client")
	connect := func() *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:///"+r.addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			RootCAs: fleet.Pool(), ServerName: relayHost, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS13,
		})))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	beats := &pulse{plane: p, name: "pulse", arrived: make(map[string]string)}
	beats.beat()
	kept, joining := newJoiners(t), newJoiners(t)
	kept.took = beats.took
	for i := range keepers {
		kept.join(connect(), fmt.Sprint("keeper-", i), endpointType, beats.name)
	}
	kept.all(keepers, patience)
	stop, beating := make(chan struct{}), sync.WaitGroup{}
	beating.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				beats.beat()
			}
		}
	})
	beats.measured()
	<-time.After(2 * time.Second)
	before := beats.measured()

	began := time.Now()
	for i := range *atOnceClients {
		joining.join(connect(), fmt.Sprint("client-", i), endpointType, "*")
	}
	joining.all(*atOnceClients, 5*time.Minute)
	took := time.Since(began)
	during := beats.measured()
	close(stop)
	beating.Wait()
	beats.beat()
	last := fmt.Sprint("p", len(beats.sent)-1)
	waitFor(t, "the last update of those that were connected", func() bool {
		beats.mu.Lock()
		defer beats.mu.Unlock()
		for _, version := range beats.arrived {
			if version != last {
				return false
			}
		}
		return len(beats.arrived) == keepers
	})
	peak := r.peak()
	t.Logf("%d clients were served within %v; %d streams were told to come again, %d ended otherwise; handshakes: %v refused, %v failed",
		*atOnceClients, took.Round(time.Millisecond), joining.hinted.Load(), joining.ended.Load(),
		r.sum(t, "xdsrelay_admission_refused_total", `work="handshake"`), r.sum(t, "xdsrelay_downstream_failed_handshakes_total", ""))
	t.Logf("memory: %d MiB at most", peak>>20)
	t.Logf("updates of %d that were connected: p99 %v before, %v meanwhile (max %v); in the relay: %s",
		keepers, quantile(before, 0.99), quantile(during, 0.99), quantile(during, 1), r.buckets("xdsrelay_downstream_propagation_seconds", `type="eds"`))
	t.Logf("joins: %s", r.buckets("xdsrelay_admission_seconds", `work="join"`))
	t.Logf("handshakes: %s", r.buckets("xdsrelay_admission_seconds", `work="handshake"`))
	if n := kept.ended.Load() + kept.hinted.Load(); n > 0 {
		t.Errorf("SUR-4: %d streams ended that were served", n)
	}
	if peak > limit {
		t.Errorf("LIM-3: the relay took %d MiB, and has %d", peak>>20, limit>>20)
	}
}
