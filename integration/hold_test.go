package integration

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

var holdFor = flag.Duration("hold.for", 2*time.Second, "how long TestHoldUnderChurn holds what clients get")

// command gives a command on the admin port.
func (r *testRelay) command(t testing.TB, path, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(r.admin+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", path, body, resp.Status)
	}
}

// heldWatch knows what clients may get while it is held: one state of the control plane, as a whole.
type heldWatch struct {
	mu    sync.Mutex
	state map[string]string // payloads by type and name; nil: nothing is held
}

func (w *heldWatch) hold(state map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
}

func (w *heldWatch) put(typeURL, name string, x held) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != nil && w.state[typeURL+" "+name] != x.payload {
		return fmt.Sprintf("was sent %s %s of another state than the held one", typeURL, name)
	}
	return ""
}

func (w *heldWatch) removed(typeURL, name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, has := w.state[typeURL+" "+name]; has {
		return fmt.Sprintf("lost %s %s, which is held", typeURL, name)
	}
	return ""
}

// stateOf is what a client holds.
func stateOf(c xdsClient) map[string]string {
	all := make(map[string]string)
	for _, typeURL := range []string{clusterType, endpointType, listenerType} {
		for name, payload := range c.common().payloads(typeURL) {
			all[typeURL+" "+name] = payload
		}
	}
	return all
}

// churn changes, removes and adds clusters, endpoints and listeners, until stop is closed.
func churn(t *testing.T, cp *gocontrolplane.ControlPlane, all map[string]proto.Message, stop <-chan struct{}) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(all))
	for i := 1; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		typeURL, name, _ := strings.Cut(keys[i%len(keys)], " ")
		var err error
		switch {
		case typeURL != clusterType:
			_, err = cp.UpdateResource(name, proto.Clone(all[keys[i%len(keys)]]))
		case i%3 == 0:
			err = cp.DeleteResource(typeURL, name)
		default:
			_, err = cp.UpdateResource(name, cluster(name, time.Duration(i)*time.Second))
			if err == nil && i%7 == 0 {
				_, err = cp.UpdateResource(fmt.Sprint("new", i%5), cluster(fmt.Sprint("new", i%5), time.Duration(i)*time.Second))
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// What clients get is held while the control plane goes on changing everything. No client is sent
// anything but the held state, also if it comes then, and if its stream or the relay's breaks. After the
// release all of them hold what the control plane has (GATE-4).
func TestHoldUnderChurn_GATE4(t *testing.T) {
	for _, k := range planesThatEmpty {
		t.Run(k.name, func(t *testing.T) {
			if *holdFor > time.Minute {
				t.Parallel() // or it would take most of an hour
			}
			testHoldUnderChurn(t, k.build(), k.api)
		})
	}
}

func testHoldUnderChurn(t *testing.T, cp *gocontrolplane.ControlPlane, api config.APIType) {
	t.Helper()
	names, all := guarded(30)
	startFilled(t, cp, all)
	relay := startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = api }, cp.Addr())
	watch := new(heldWatch)
	var clients []xdsClient
	join := func() xdsClient {
		v := []variant{deltaADS, sotwADS}[len(clients)%2]
		c := newVariantClient(t, v, relay.address(v), fmt.Sprint("client-", len(clients)))
		c.common().watch = watch
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		asksForGuarded(c, names)
		clients = append(clients, c)
		return c
	}
	for range 2 {
		c := join()
		c.common().awaitHolding(t, clusterType, names...)
		c.common().awaitHolding(t, endpointType, names...)
		c.common().awaitHolding(t, listenerType, "front")
	}
	// The first state is over when it was quiet for upstreams[].settle.
	state := stateOf(clients[0])
	if _, is := wait.Holds(200*time.Millisecond, func() bool { return maps.Equal(stateOf(clients[1]), state) }); !is {
		t.Fatal("the clients hold different states")
	}
	relay.command(t, "/hold", "{}")
	watch.hold(state)
	stop := make(chan struct{})
	var churning sync.WaitGroup
	churning.Go(func() { churn(t, cp, all, stop) })
	for end := time.Now().Add(*holdFor); time.Now().Before(end) && !t.Failed(); {
		if len(clients) == 10 {
			clients[9].disconnect()
			clients = clients[:9]
		}
		c := join()
		if !c.common().happens(func() bool { return maps.Equal(stateOf(c), state) }) {
			t.Fatalf("%s holds %d resources, %d are held", c.common().node, len(stateOf(c)), len(state))
		}
	}
	close(stop)
	churning.Wait()
	last := cp.Versions(clusterType)
	for _, c := range clients {
		if got := stateOf(c); !maps.Equal(got, state) {
			t.Errorf("%s holds something else than what is held", c.common().node)
		}
	}
	watch.hold(nil)
	relay.command(t, "/release", "{}")
	direct := newVariantClient(t, deltaADS, cp.Addr(), "direct")
	if err := direct.connect(true); err != nil {
		t.Fatal(err)
	}
	asksForGuarded(direct, names)
	direct.common().awaitHolding(t, clusterType, slices.Collect(maps.Keys(last))...)
	direct.common().awaitHolding(t, endpointType, names...)
	direct.common().awaitHolding(t, listenerType, "front")
	want := stateOf(direct)
	for _, c := range clients {
		if !c.common().happens(func() bool { return maps.Equal(stateOf(c), want) }) {
			t.Errorf("%s does not hold what the control plane has: %s", c.common().node, cmp.Diff(want, stateOf(c)))
		}
		c.common().mu.Lock()
		faults := c.common().faults
		c.common().mu.Unlock()
		if len(faults) > 0 {
			t.Errorf("%s: %s", c.common().node, faults[0])
		}
	}
	relay.consistent(t)
}
