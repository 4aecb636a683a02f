// Command gcp0103 is a control plane of the end-to-end tests: the server and the
// caches of go-control-plane v0.10.3, the last version that knows no
// wildcard but an empty first request. It is a module of its own, because the
// tests themselves need a newer version.
//
//	gcp0103 [linear] <port>
//
// With "linear" it has a linear cache for each type, and no snapshot. It listens on
// 127.0.0.1. The first line of the output is {"version": …}. Each
// line of the input, {"version": …, "resources": […]}, is the next snapshot, the
// same for all nodes; a resource is a google.protobuf.Any in base64. It is
// answered with {"done": true} or {"error": …}. Between the answers the output
// tells of the streams: {"stream": …, "delta": …} of one that was opened, the same
// with a "request" in base64 of each request on it, and with "closed": true of its
// end. The end of the input ends the process.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	module    = "github.com/envoyproxy/go-control-plane"
	everyNode = "every node"
)

// command is a line of the input.
type command struct {
	Version   string   `json:"version"`
	Resources [][]byte `json:"resources"`
}

// event is a line of the output.
type event struct {
	Version string `json:"version,omitempty"`
	Done    bool   `json:"done,omitempty"`
	Error   string `json:"error,omitempty"`

	Stream  int64  `json:"stream,omitempty"`
	Delta   bool   `json:"delta,omitempty"`
	Request []byte `json:"request,omitempty"`
	Closed  bool   `json:"closed,omitempty"`
}

// output writes events.
type output struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

// write ends the process if nobody reads any more.
func (o *output) write(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.encoder.Encode(e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// oneGroup takes all nodes for one.
type oneGroup struct{}

// ID implements cache.NodeHash.
func (oneGroup) ID(*corev3.Node) string { return everyNode }

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	var has contents = snapshots{cache.NewSnapshotCache(false, oneGroup{}, nil)} // a client gets what it names
	if len(args) == 2 && args[0] == "linear" {
		has, args = newLinear(), args[1:]
	}
	if len(args) != 1 {
		return fmt.Errorf("%d arguments, expected a port, with \"linear\" before it if caches are to be linear", len(args))
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", args[0]))
	if err != nil {
		return err
	}
	o := &output{encoder: json.NewEncoder(out)}
	g := grpc.NewServer(grpc.StreamInterceptor(reporter(o)))
	discovery.RegisterAggregatedDiscoveryServiceServer(g, server.NewServer(context.Background(), has, nil))
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	defer func() {
		g.Stop()
		<-served
	}()
	o.write(event{Version: version()})
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := set(has, line); err != nil {
			o.write(event{Error: err.Error()})
		} else {
			o.write(event{Done: true})
		}
	}
}

// version is go-control-plane's.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return ""
}

// contents are the resources that clients get.
type contents interface {
	cache.Cache
	// set makes these, by type, all that there are.
	set(version string, all map[string][]types.Resource) error
}

// snapshots has one snapshot for all nodes.
type snapshots struct{ cache.SnapshotCache }

func (s snapshots) set(version string, all map[string][]types.Resource) error {
	snapshot, err := cache.NewSnapshot(version, all)
	if err != nil {
		return err
	}
	return s.SetSnapshot(context.Background(), everyNode, snapshot)
}

// linear has a linear cache for each type.
type linear struct {
	*cache.MuxCache

	caches map[string]*cache.LinearCache
}

func newLinear() linear {
	l := linear{&cache.MuxCache{
		Classify:      func(r *cache.Request) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        make(map[string]cache.Cache),
	}, make(map[string]*cache.LinearCache)}
	for _, typeURL := range []string{resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.RouteType} {
		l.caches[typeURL] = cache.NewLinearCache(typeURL)
		l.Caches[typeURL] = l.caches[typeURL]
	}
	return l
}

// set changes what differs, as one change of each type.
func (l linear) set(_ string, all map[string][]types.Resource) error {
	for typeURL, c := range l.caches {
		was := c.GetResources()
		changed := make(map[string]types.Resource)
		for _, r := range all[typeURL] {
			name := cache.GetResourceName(r)
			if before, had := was[name]; !had || !proto.Equal(before, r) {
				changed[name] = r
			}
			delete(was, name)
		}
		var gone []string
		for name := range was {
			gone = append(gone, name)
		}
		if len(changed)+len(gone) == 0 {
			continue
		}
		if err := c.UpdateResources(changed, gone); err != nil {
			return err
		}
	}
	return nil
}

// set makes a line of the input the contents.
func set(to contents, line []byte) error {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	byType := make(map[string][]types.Resource)
	for _, encoded := range c.Resources {
		var resource anypb.Any
		if err := proto.Unmarshal(encoded, &resource); err != nil {
			return err
		}
		message, err := resource.UnmarshalNew()
		if err != nil {
			return err
		}
		byType[resource.GetTypeUrl()] = append(byType[resource.GetTypeUrl()], message)
	}
	return to.set(c.Version, byType)
}

// reporter reports streams and the requests on them.
func reporter(o *output) grpc.StreamServerInterceptor {
	var streams atomic.Int64
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		r := &reported{ServerStream: stream, output: o, id: streams.Add(1), delta: strings.Contains(info.FullMethod, "/Delta")}
		o.write(event{Stream: r.id, Delta: r.delta})
		defer o.write(event{Stream: r.id, Closed: true})
		return handler(srv, r)
	}
}

// reported is a stream whose requests are reported.
type reported struct {
	grpc.ServerStream

	output *output
	id     int64
	delta  bool
}

// RecvMsg implements grpc.ServerStream.
func (r *reported) RecvMsg(m any) error {
	if err := r.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	encoded, err := proto.Marshal(m.(proto.Message))
	if err != nil {
		return err
	}
	r.output.write(event{Stream: r.id, Delta: r.delta, Request: encoded})
	return nil
}
