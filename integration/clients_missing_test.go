package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

const (
	// missingTimeout is the deadline of RPCs that cannot succeed. It is longer than the
	// 15 s after which gRPC clients, and relays of SotW servers, take for missing what
	// they asked for.
	missingTimeout = 20 * time.Second
	// missingLater is how much later an RPC may fail behind a relay than directly.
	missingLater = time.Second
)

// missingResources are the services that cannot be called, by what does not exist.
func missingResources() []string { return []string{"listener", "route", "cluster", "endpoints"} }

// missingServer is the control plane by itself, or a relay that asks it in one form.
// Asked in the incremental form, the control plane says what does not exist (RES-6).
// In the SotW form it leaves listeners and clusters out of its lists, and is silent
// about routes and endpoints.
type missingServer struct {
	name    string
	relayed bool
	up      upstreamVariant
}

// missingServers begin with the control plane by itself.
func missingServers() []missingServer {
	return []missingServer{
		{name: "direct"},
		{name: "relay over " + upDeltaADS.apiType, relayed: true, up: upDeltaADS},
		{name: "relay over " + upSotwADS.apiType, relayed: true, up: upSotwADS},
	}
}

// missingFaults are what is known to be wrong with names that do not exist.
func missingFaults() faults { return faults{} }

// missingCase is one cell of the table.
type missingCase struct{ kind, resource, server string }

func (c missingCase) name() string {
	return fmt.Sprintf("%s/ABS-1 RES-7 no %s, %s", c.kind, c.resource, c.server)
}

// TestGRPCMissing has gRPC clients call services of which a resource does not exist.
// The RPCs must not take longer to fail behind a relay than directly (ABS-1, RES-7).
// Directly it takes the clients' own 15 s, whatever is missing: they conclude nothing
// from a list without what they never had, and read no resource errors. RPCs of
// grpc-js wait on, where it is not the cluster that is missing.
func TestGRPCMissing(t *testing.T) {
	t.Parallel() // most of it is waiting
	r := newReport(t)
	var kinds []clientKind
	for _, kind := range clientKinds() {
		if r.has(t, kind.name, kind.missing) {
			kinds = append(kinds, kind)
		}
	}
	took := measureMissing(t, r, kinds)
	t.Log("how long RPCs take to fail:\n" + missingTable(took))

	known := missingFaults()
	var names []string
	for _, kind := range clientKinds() {
		for _, resource := range missingResources() {
			for _, server := range missingServers()[1:] {
				c := missingCase{kind.name, resource, server.name}
				names = append(names, c.name())
				direct, ran := took[missingCase{kind.name, resource, "direct"}]
				if !ran {
					continue
				}
				known.run(t, r, c.name(), func(t testing.TB) {
					t.Helper()
					if late := took[c] - direct; late > missingLater {
						t.Errorf("%s: the RPC took %v to fail, directly it took %v", c.name(), took[c], direct)
					}
				})
			}
		}
	}
	known.among(t, names)
}

// measureMissing makes all RPCs at once, after everything that clients and relays do
// only once.
func measureMissing(t *testing.T, r *report, kinds []clientKind) map[missingCase]time.Duration {
	t.Helper()
	type client struct {
		rpcClient

		kind, server string
	}
	var clients []client
	for _, server := range missingServers() {
		for _, kind := range kinds {
			bootstrap := naming{}.bootstrap(t, kind.name, server.start(t))
			c := client{kind.start(t, bootstrap, missingTimeout), kind.name, server.name}
			clients = append(clients, c)
			r.ran(t, func() string { return kind.name + " " + c.version() }, server.name, "ABS-1 RES-7 names that do not exist")
		}
	}
	var calling sync.WaitGroup
	for _, c := range clients {
		calling.Go(func() {
			if o := c.call(naming{}.target("exists")); o.Code != codes.OK {
				t.Errorf("%s, %s: %v: %s", c.kind, c.server, o.Code, o.Message)
			}
		})
	}
	calling.Wait()

	var mu sync.Mutex
	took := make(map[missingCase]time.Duration)
	for _, c := range clients {
		for _, resource := range missingResources() {
			calling.Go(func() {
				begun := time.Now()
				o := c.call(naming{}.target("no-" + resource))
				after := time.Since(begun).Round(10 * time.Millisecond)
				if o.Code != codes.Unavailable && o.Code != codes.DeadlineExceeded {
					t.Errorf("%s, no %s, %s: %v after %v: %s", c.kind, resource, c.server, o.Code, after, o.Message)
				}
				mu.Lock()
				defer mu.Unlock()
				took[missingCase{c.kind, resource, c.server}] = after
			})
		}
	}
	calling.Wait()
	return took
}

// start gives the address of a server of its own.
func (s missingServer) start(t *testing.T) string {
	t.Helper()
	p := newPlane(t)
	n := naming{}
	put := func(typeURL string, m proto.Message) {
		_, name := idOf(m)
		payload, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		p.put(typeURL, name, payload)
	}
	for service, stops := range map[string]string{
		"exists": "", "no-route": "route", "no-cluster": "cluster", "no-endpoints": "endpoints",
	} {
		put(listenerType, n.listener(service, service))
		if stops == "route" {
			continue
		}
		put(routeType, n.route(service, service))
		if stops == "cluster" {
			continue
		}
		put(clusterType, n.cluster(service, service))
		if stops != "endpoints" {
			put(endpointType, n.endpoints(service, newBackend(t, service)))
		}
	}
	if !s.relayed {
		return p.addr
	}
	return startRelayOver(t, s.up, p, func(c *config.Config) {
		// As operators have it; testConfig makes the default itself shorter.
		c.Upstreams[0].AbsentAfter += config.Duration(time.Millisecond)
	}).addr
}

// missingTable shows the measurements, the clients one below the other.
func missingTable(took map[missingCase]time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s", "")
	for _, server := range missingServers() {
		fmt.Fprintf(&b, "%34s", server.name)
	}
	for _, kind := range clientKinds() {
		for _, resource := range missingResources() {
			fmt.Fprintf(&b, "\n%-24s", kind.name+", no "+resource)
			for _, server := range missingServers() {
				text := "–"
				switch after, ran := took[missingCase{kind.name, resource, server.name}]; {
				case ran && after < missingTimeout:
					text = after.String()
				case ran:
					text = "not within " + missingTimeout.String()
				}
				fmt.Fprintf(&b, "%34s", text)
			}
		}
	}
	return b.String()
}
