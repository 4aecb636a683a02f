package integration

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// errorClient is a client that knows resource errors, and remembers how often it was
// told of each.
type errorClient struct {
	*xdsclient.Client

	polls bool

	mu   sync.Mutex
	told map[string]int // "type name code" → times
}

func (c *errorClient) respond(r *xdsclient.Response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range r.Changes {
		if ch.Kind == xdsclient.Failed {
			c.told[fmt.Sprint(short(r.TypeURL), " ", ch.Name, " ", ch.Error.Code)]++
		}
	}
	return nil
}

// short is the last word of a type URL.
func short(typeURL string) string { return typeURL[strings.LastIndexByte(typeURL, '.')+1:] }

// was lists what it was told, sorted, and how often if that was more than once, which
// only those are to be that are told everything each time.
func (c *errorClient) was() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for what, times := range c.told {
		if times > 1 && !c.polls {
			what = fmt.Sprint(what, " x", times)
		}
		all = append(all, what)
	}
	return slices.Sorted(slices.Values(all))
}

// newErrorClient runs a client of a variant on a relay.
func newErrorClient(t *testing.T, v variant, r *testRelay) *errorClient {
	t.Helper()
	c := &errorClient{polls: v.rest, told: map[string]int{}}
	o := xdsclient.Options{
		Form: v.form(), Node: &corev3.Node{Id: "errors", Cluster: "c"}, PerType: v.perType, OnResponse: c.respond, PollInterval: pollInterval,
	}
	if v.rest {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		o.HTTP, o.URL = &http.Client{Transport: transport}, "http://"+r.rest
	} else {
		conn := dial(t, r.addr)
		t.Cleanup(func() { _ = conn.Close() })
		o.Conn = conn
	}
	c.Client = xdsclient.New(o)
	return c
}

// TestErrors_ERR1_VAR7 has errors come from files to a relay, from there to another one
// in every variant, and on to clients of every variant: each is told of each once.
func TestErrors_ERR1_VAR7(t *testing.T) {
	speaks := slices.DeleteFunc(slices.Clone(variants), func(v variant) bool { return v.v2 })
	for _, up := range upstreamVariants {
		t.Run(up.apiType, func(t *testing.T) { errorsOver(t, up, speaks) })
	}
}

func errorsOver(t *testing.T, up upstreamVariant, speaks []variant) {
	t.Helper()
	f := newFolder(t)
	f.put("clusters.yaml", clusterFile("1", "a=one", "b=one")+errorsFile("c=14"))
	f.put("endpoints.yaml", endpointFile("1", "x", "y")+errorsFile("z=5"))
	first := startRelay(t, fromFiles(f))
	relay := first
	if !up.files {
		addr := first.addr
		if up.rest {
			addr = first.rest
		}
		relay = startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = config.APIType(up.apiType) }, addr)
	}
	var clients []*errorClient
	for _, v := range speaks {
		c := newErrorClient(t, v, relay)
		c.Subscribe(clusterType, xdsclient.Wildcard)
		c.Subscribe(endpointType, "x", "y", "z")
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			_ = c.Follow(ctx, xdsclient.Backoff{}, func(error, time.Duration) error { return nil })
		})
		t.Cleanup(func() {
			cancel()
			running.Wait()
		})
		clients = append(clients, c)
	}
	all := func(what string, held []string, want ...string) {
		t.Helper()
		for i, c := range clients {
			var names, was []string
			happens(func() bool {
				names = slices.Sorted(maps.Keys(c.Versions(clusterType)))
				names = append(names, slices.Sorted(maps.Keys(c.Versions(endpointType)))...)
				was = c.was()
				return slices.Equal(was, want) && slices.Equal(names, held)
			})
			if !slices.Equal(was, want) || !slices.Equal(names, held) {
				t.Fatalf("%s: %s over %s holds %q, was told %q", what, speaks[i].name, up.apiType, names, was)
			}
		}
	}
	all("the first state", []string{"a", "b", "x", "y"}, "Cluster c Unavailable", "ClusterLoadAssignment z NotFound")
	f.put("clusters.yaml", clusterFile("2", "a=one")+errorsFile("c=14", "b=13"))
	all("an error that passes", []string{"a", "b", "x", "y"},
		"Cluster b Internal", "Cluster c Unavailable", "ClusterLoadAssignment z NotFound")
	f.put("endpoints.yaml", endpointFile("2", "x")+errorsFile("z=5", "y=7"))
	all("an error that takes away", []string{"a", "b", "x"}, "Cluster b Internal", "Cluster c Unavailable",
		"ClusterLoadAssignment y PermissionDenied", "ClusterLoadAssignment z NotFound")
	f.put("clusters.yaml", clusterFile("3", "a=one", "b=two", "c=two"))
	all("what comes back", []string{"a", "b", "c", "x"}, "Cluster b Internal", "Cluster c Unavailable",
		"ClusterLoadAssignment y PermissionDenied", "ClusterLoadAssignment z NotFound")
	first.consistent(t)
	relay.consistent(t)
}

// happens waits for cond, and gives up in the end.
func happens(cond func() bool) {
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			return
		}
	}
}

// errorsFile is the end of a file of resources: errors, "name=code" each.
func errorsFile(errs ...string) string {
	var b strings.Builder
	b.WriteString("resource_errors:\n")
	for _, e := range errs {
		name, code, _ := strings.Cut(e, "=")
		fmt.Fprintf(&b, "  - resource_name: {name: %s}\n    error_detail: {code: %s, message: why}\n", name, code)
	}
	return b.String()
}
