package planes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// client is an xDS client that says what a test has it say, and acknowledges everything.
type client struct {
	w      *world
	send   func(typeURL string, names, dropped []string, versions map[string]string)
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	known    map[string]map[string]string // payloads by type and name
	versions map[string]string            // by name, of the incremental form
	said     []string                     // what came: "+name", "-name", "=name" without payload
}

// dial opens an aggregated stream.
func (w *world) dial(state bool) *client {
	w.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+w.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{w: w, cancel: cancel, done: make(chan struct{}), known: make(map[string]map[string]string), versions: make(map[string]string)}
	ads := discovery.NewAggregatedDiscoveryServiceClient(conn)
	if state {
		err = c.openState(ctx, ads)
	} else {
		err = c.openDelta(ctx, ads)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		c.leave()
		_ = conn.Close()
	})
	return c
}

func (c *client) leave() {
	c.cancel()
	<-c.done
}

func (c *client) openDelta(ctx context.Context, ads discovery.AggregatedDiscoveryServiceClient) error {
	stream, err := ads.DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	requests := sender(ctx, stream.Send)
	c.send = func(typeURL string, names, dropped []string, versions map[string]string) {
		requests <- &discovery.DeltaDiscoveryRequest{
			Node: &corev3.Node{Id: node}, TypeUrl: typeURL, ResourceNamesSubscribe: names,
			ResourceNamesUnsubscribe: dropped, InitialResourceVersions: versions,
		}
	}
	go func() {
		defer close(c.done)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			c.takeDelta(r)
			select {
			case requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}:
			case <-ctx.Done():
			}
		}
	}()
	return nil
}

// sender has one goroutine send what comes.
func sender[R any](ctx context.Context, send func(R) error) chan<- R {
	requests := make(chan R, 100)
	go func() {
		for {
			select {
			case r := <-requests:
				if send(r) != nil {
					return // Recv tells why
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return requests
}

func (c *client) takeDelta(r *discovery.DeltaDiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.ofLocked(r.GetTypeUrl())
	for _, x := range r.GetResources() {
		if x.GetResource() == nil {
			c.said = append(c.said, "="+x.GetName()+"|"+strings.Join(x.GetAliases(), ","))
			continue
		}
		held[x.GetName()] = string(x.GetResource().GetValue())
		c.versions[x.GetName()] = x.GetVersion()
		c.said = append(c.said, "+"+x.GetName())
	}
	for _, name := range r.GetRemovedResources() {
		delete(held, name)
		delete(c.versions, name)
		c.said = append(c.said, "-"+name)
	}
}

func (c *client) ofLocked(typeURL string) map[string]string {
	if c.known[typeURL] == nil {
		c.known[typeURL] = make(map[string]string)
	}
	return c.known[typeURL]
}

// openState opens a stream of the state of the world, on which all names are said once.
func (c *client) openState(ctx context.Context, ads discovery.AggregatedDiscoveryServiceClient) error {
	stream, err := ads.StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	requests := sender(ctx, stream.Send)
	var mu sync.Mutex
	wanted := make(map[string][]string)
	c.send = func(typeURL string, names, _ []string, _ map[string]string) {
		mu.Lock()
		wanted[typeURL] = names
		mu.Unlock()
		requests <- &discovery.DiscoveryRequest{Node: &corev3.Node{Id: node}, TypeUrl: typeURL, ResourceNames: names}
	}
	go func() {
		defer close(c.done)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			c.takeState(r)
			mu.Lock()
			names := wanted[r.GetTypeUrl()]
			mu.Unlock()
			select {
			case requests <- &discovery.DiscoveryRequest{
				TypeUrl: r.GetTypeUrl(), ResourceNames: names, VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce(),
			}:
			case <-ctx.Done():
			}
		}
	}()
	return nil
}

// takeState takes a list of clusters, which are all that these clients ask for.
func (c *client) takeState(r *discovery.DiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := make(map[string]string)
	for _, a := range r.GetResources() {
		name := clusterName(a)
		held[name] = string(a.GetValue())
		c.said = append(c.said, "+"+name)
	}
	c.known[r.GetTypeUrl()] = held
}

func clusterName(a *anypb.Any) string {
	var m clusterv3.Cluster
	if err := a.UnmarshalTo(&m); err != nil {
		return fmt.Sprint("unreadable: ", err)
	}
	return m.GetName()
}

// holds reports whether the client has just these messages of a type.
func (c *client) holds(typeURL string, want map[string]proto.Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known[typeURL]) != len(want) {
		return false
	}
	for name, m := range want {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if got, ok := c.known[typeURL][name]; err != nil || !ok || got != string(b) {
			return false
		}
	}
	return true
}

// await waits until the client has just these messages of a type.
func (c *client) await(what, typeURL string, want map[string]proto.Message) {
	c.w.t.Helper()
	c.w.until(what, func() bool { return c.holds(typeURL, want) }, func() any {
		return fmt.Sprint("the client has ", c.names(typeURL), ", want ", slices.Sorted(maps.Keys(want)))
	})
}

func (c *client) names(typeURL string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.known[typeURL]))
}

// take gives what came since it was called last, in order within a response.
func (c *client) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := c.said
	c.said = nil
	return said
}

// hears waits until just these words came, in any order.
func (c *client) hears(what string, want ...string) {
	c.w.t.Helper()
	var got []string
	slices.Sort(want)
	c.w.until(what, func() bool {
		got = append(got, c.take()...)
		slices.Sort(got)
		return slices.Equal(got, want)
	}, func() any { return fmt.Sprintf("the client heard %q, want %q", got, want) })
}

// presents gives the versions of what the client has.
func (c *client) presents() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.versions)
}

// heard waits until these words came, and gives all that came.
func (c *client) heard(what string, want ...string) []string {
	c.w.t.Helper()
	var got []string
	c.w.until(what, func() bool {
		got = append(got, c.take()...)
		return !slices.ContainsFunc(want, func(word string) bool { return !slices.Contains(got, word) })
	}, func() any { return fmt.Sprintf("the client heard %q, want %q", got, want) })
	return got
}
