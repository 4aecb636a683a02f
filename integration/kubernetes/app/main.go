// Command app is what the suite of Kubernetes runs in pods beside relays and Envoys: a control plane of which all
// changes every two seconds, the backends of its clusters, and the traffic through an Envoy.
//
//	app plane BACKENDS    control plane on :18000; BACKENDS is a name with port, of which each address is an endpoint
//	app backend           answers each request on :8080 with its path
//	app traffic           sends requests to 127.0.0.1:10000, and says on :9000 what came of them; /begin counts anew
//
// Each change is a step, and steps follow the clock: a control plane that starts again goes on. A step has a cluster of
// its own, with its endpoints, and the route leads there; the cluster of the step before is still there. Each fifth step
// has another listener. The route makes the step the path, so that each answer says which step the Envoy has.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
)

const (
	every    = 2 * time.Second
	interval = 100 * time.Millisecond // between requests
	envoy    = "127.0.0.1:10000"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch {
	case len(args) == 2 && args[0] == "plane":
		return serveSteps(ctx, args[1])
	case len(args) == 1 && args[0] == "backend":
		return serve(ctx, ":8080", func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.WriteString(w, req.URL.Path) //nolint:gosec // the path is the control plane's, and no browser reads it
		})
	case len(args) == 1 && args[0] == "traffic":
		return send(ctx)
	}
	return errors.New("expected plane BACKENDS, backend or traffic")
}

// serve answers requests until ctx ends.
func serve(ctx context.Context, address string, answer http.HandlerFunc) error {
	server := &http.Server{Addr: address, Handler: answer, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveSteps is the control plane.
func serveSteps(ctx context.Context, backends string) error {
	host, port, err := net.SplitHostPort(backends)
	if err != nil {
		return err
	}
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", ":18000")
	if err != nil {
		return err
	}
	p := plane.New(plane.Behaviour{DigestVersions: true})
	defer p.Stop()
	var before plane.Change
	tick := time.NewTicker(every)
	defer tick.Stop()
	for served := false; ; {
		addresses, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if len(addresses) > 0 {
			slices.Sort(addresses)
			for i, a := range addresses {
				addresses[i] = net.JoinHostPort(a, port)
			}
			n := time.Now().Unix() / int64(every/time.Second)
			now := step(n, addresses)
			now.Set = append(now.Set, step(n-1, addresses).Set[:2]...)
			now.Remove = stale(before, now)
			p.Apply(now)
			before = now
			if !served {
				p.Serve(lis, nil)
				served = true
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// stale are the resources of before that now has not.
func stale(before, now plane.Change) (keys []plane.Key) {
	for _, r := range before.Set {
		if !slices.ContainsFunc(now.Set, func(n plane.Resource) bool { return n.Name == r.Name }) {
			keys = append(keys, plane.Key{TypeURL: envoyproc.Any(r.Message).GetTypeUrl(), Name: r.Name})
		}
	}
	return keys
}

// step is all that the control plane has: cluster and endpoints first.
func step(n int64, addresses []string) plane.Change {
	source, name := envoyproc.Variant{Delta: true}.Source(0), "shop-"+strconv.FormatInt(n, 10)
	cluster := &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(time.Minute), ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: source},
	}
	route := &routev3.RouteConfiguration{Name: "main", VirtualHosts: []*routev3.VirtualHost{{
		Name: "all", Domains: []string{"*"},
		Routes: []*routev3.Route{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name}, PrefixRewrite: "/" + strconv.FormatInt(n, 10),
			}},
		}},
	}}}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:     "in-" + strconv.FormatInt(n/5, 10),
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: source, RouteConfigName: "main"}},
		HttpFilters:    []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoyproc.Any(&routerv3.Router{})}}},
	}
	listener := &listenerv3.Listener{
		Name: "in", Address: envoyproc.Address(envoy),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoyproc.Any(manager)},
		}}}},
	}
	return plane.Change{Set: []plane.Resource{
		{Name: name, Message: cluster}, {Name: name, Message: envoyproc.Assignment(name, addresses...)},
		{Name: "main", Message: route}, {Name: "in", Message: listener},
	}}
}

// counts is what came of the requests so far.
type counts struct {
	Sent     int      `json:"sent"`     // since the first that was answered
	Failed   int      `json:"failed"`   // of them
	Behind   int64    `json:"behind"`   // steps that the last answer is behind the clock
	Failures []string `json:"failures"` // the first of them
}

// send sends requests until ctx ends. Those before the first answer do not count: the Envoy starts.
func send(ctx context.Context) error {
	var mu sync.Mutex
	var all counts
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		client, tick := traffic.NewClient().Within(time.Minute), time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			running.Go(func() {
				o := client.Get(context.WithoutCancel(ctx), envoy, "", "/")
				mu.Lock()
				defer mu.Unlock()
				all.note(o)
			})
		}
	})
	return serve(ctx, ":9000", func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(all) // the client is gone if this fails
		if req.URL.Path == "/begin" {
			all = counts{}
		}
	})
}

func (c *counts) note(o traffic.Outcome) {
	step, err := strconv.ParseInt(strings.TrimPrefix(o.Body, "/"), 10, 64)
	failure := cmp.Or(o.Failure, errorText(err))
	switch {
	case failure == "":
		c.Behind = o.At.Unix()/int64(every/time.Second) - step
	case c.Sent == 0:
		return
	default:
		c.Failed++
		if len(c.Failures) < 10 {
			c.Failures = append(c.Failures, o.At.UTC().Format(time.StampMilli)+" "+failure)
		}
	}
	c.Sent++
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
