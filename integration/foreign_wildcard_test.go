package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// wildcardForm is a form in which xDS clients ask.
type wildcardForm struct {
	name string
	form xdsclient.Form
}

func wildcardForms() []wildcardForm {
	return []wildcardForm{{"incremental", xdsclient.Incremental}, {"SotW", xdsclient.SotW}}
}

// wildcardClient is an xDS client that asks for all clusters and listeners, and for
// other types by name. It keeps whole resources.
type wildcardClient struct{ *xdsclient.Client }

// follow starts a client. Its wildcards are empty first requests, as Envoy's are.
func (f wildcardForm) follow(t testing.TB, addr, node string, names map[string][]string) wildcardClient {
	t.Helper()
	conn, err := xdsclient.Dial("passthrough:///"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := wildcardClient{xdsclient.New(xdsclient.Options{Form: f.form, Conn: conn, Node: &corev3.Node{Id: node}, KeepResources: true})}
	c.Subscribe(clusterType)
	c.Subscribe(listenerType)
	for _, url := range slices.Sorted(maps.Keys(names)) {
		c.Subscribe(url, names[url]...)
	}
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() {
		_ = c.Follow(ctx, xdsclient.Backoff{Base: 10 * time.Millisecond, Max: 100 * time.Millisecond}, nil) // ends with stop
	})
	t.Cleanup(func() {
		stop()
		following.Wait()
		_ = conn.Close()
	})
	return c
}

// await waits until the client holds just these resources.
func (c wildcardClient) await(t testing.TB, what string, resources map[string]proto.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patienceOf(t))
	defer cancel()
	var err error
	if c.Wait(ctx, func(*xdsclient.Client) bool {
		err = c.holds(resources)
		return err == nil
	}) != nil {
		t.Fatalf("%s never came: %v", what, err)
	}
}

// holds compares what the client holds with resources.
func (c wildcardClient) holds(resources map[string]proto.Message) error {
	want := make(map[string]int)
	for _, m := range resources {
		url, name := idOf(m)
		want[url]++
		held, ok := c.Get(url, name)
		if !ok {
			return fmt.Errorf("the client has no %s %s", short(url), name)
		}
		var payload anypb.Any
		if err := proto.Unmarshal(held.Resource.Any(), &payload); err != nil {
			return err
		}
		got, err := payload.UnmarshalNew()
		if err != nil {
			return err
		}
		if !proto.Equal(got, m) {
			return fmt.Errorf("the client has another %s %s: %v", short(url), name, got)
		}
	}
	for _, url := range []string{clusterType, listenerType, endpointType, routeType} {
		if n := c.Len(url); n != want[url] {
			return fmt.Errorf("the client has %d resources of %s, expected %d: %v", n, short(url), want[url], c.Versions(url))
		}
	}
	return nil
}

// followWildcards changes the resources of a control plane, which then dies and
// comes back with others. The client always has what the control plane has. Behind a
// relay a client that comes while the control plane is dead has it too.
func followWildcards(t testing.TB, w *world, form wildcardForm) {
	t.Helper()
	n, a, b := w.names, w.backends["a"], w.backends["b"]
	state := make(map[string]proto.Message)
	set := func(messages ...proto.Message) {
		for _, m := range messages {
			url, name := idOf(m)
			state[url+" "+name] = m
		}
		w.set(t, messages...)
	}
	drop := func(messages ...proto.Message) {
		for _, m := range messages {
			url, name := idOf(m)
			delete(state, url+" "+name)
		}
		w.drop(t, messages...)
	}

	set(n.endpoints("e1", a), n.endpoints("e2", b), n.cluster("c1", "e1"), n.cluster("c2", "e2"),
		n.route("r1", "c1"), n.listener("l1", "r1"))
	named := map[string][]string{endpointType: {"e1", "e2"}, routeType: {"r1"}}
	before := form.follow(t, w.server, "before", named)
	before.await(t, "the first state", state)
	set(n.endpoints("e1", b), n.cluster("c3", "e1"), n.cluster("c2", "e1"), n.route("r1", "c3"), n.listener("l2", "r1"))
	before.await(t, "the first state with changes and additions", state)
	drop(n.cluster("c2", "e1"), n.listener("l1", "r1"))
	before.await(t, "the state after removals", state)

	w.plane.Stop()
	if w.relay != nil {
		during := form.follow(t, w.server, "during", named)
		during.await(t, "the state of a control plane that is dead", state)
	}
	// What is removed meanwhile is not in it: no client of java-control-plane's
	// incremental form is told of that.
	set(n.endpoints("e2", a), n.cluster("c4", "e2"), n.cluster("c1", "e2"), n.route("r1", "c4"))
	if err := w.plane.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	before.await(t, "what changed while the control plane was dead", state)
	set(n.cluster("c1", "e1"))
	drop(n.cluster("c3", "e1"))
	before.await(t, "what changed after that", state)
}

// idOf gives type URL and name of a resource.
func idOf(m proto.Message) (typeURL, name string) {
	return gocontrolplane.TypeURL(m), cache.GetResourceName(m)
}
