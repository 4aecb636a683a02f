//go:build linux

package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
)

// planeServer is go-control-plane's server in front of one of its caches, as its
// users run it: without call-backs, and with gRPC's own defaults.
type planeServer struct {
	serving
	grpc   *grpc.Server
	cancel context.CancelFunc
	update func(typeURL string, item, revision int) error
}

func openPlane(ctx context.Context, c cache.Cache, update func(string, int, int) error) (backend, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &planeServer{
		grpc: grpc.NewServer(
			grpc.MaxConcurrentStreams(1_000_000),
			grpc.MaxRecvMsgSize(16<<20), // what the others take
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		),
		cancel: cancel, update: update,
	}
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(p.grpc, serverv3.NewServer(ctx, c, serverv3.CallbackFuncs{}))
	if err := p.serve(ctx, p.grpc.Serve); err != nil {
		cancel()
		return nil, err
	}
	return p, nil
}

// Update implements backend.
func (p *planeServer) Update(typeURL string, item, revision int) error {
	return p.update(typeURL, item, revision)
}

// Stats implements backend.
func (*planeServer) Stats() Stats { return Stats{} }

// Close implements backend.
func (p *planeServer) Close() error {
	p.cancel()
	p.grpc.Stop()
	p.running.Wait()
	return p.err
}

func noSuchType(typeURL string) error { return fmt.Errorf("nothing of type %s is served", typeURL) }

// openLinear serves a LinearCache for each type.
func openLinear(ctx context.Context, sets []content.Set) (backend, error) {
	byType := make(map[string]*cache.LinearCache)
	bySet := make(map[string]content.Set)
	mux := &cache.MuxCache{
		Classify:      func(r *discoveryv3.DiscoveryRequest) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *discoveryv3.DeltaDiscoveryRequest) string { return r.GetTypeUrl() },
		Caches:        make(map[string]cache.Cache),
	}
	for _, s := range sets {
		first := make(map[string]types.Resource, s.Count)
		for item := range s.Count {
			first[s.Name(item)] = s.Message(item, 0)
		}
		c := cache.NewLinearCache(s.TypeURL, cache.WithInitialResources(first))
		byType[s.TypeURL], bySet[s.TypeURL], mux.Caches[s.TypeURL] = c, s, c
	}
	return openPlane(ctx, mux, func(typeURL string, item, revision int) error {
		c := byType[typeURL]
		if c == nil {
			return noSuchType(typeURL)
		}
		s := bySet[typeURL]
		return c.UpdateResource(s.Name(item), s.Message(item, revision))
	})
}

// everyNode is the one group of nodes that a SnapshotCache has.
type everyNode struct{}

// ID implements cache.NodeHash.
func (everyNode) ID(*corev3.Node) string { return "every node" }

// openSnapshot serves a SnapshotCache with one snapshot for everybody. An update is a
// new snapshot, which takes its resources from a list.
func openSnapshot(ctx context.Context, sets []content.Set) (backend, error) {
	all := cache.NewSnapshotCache(true, everyNode{}, nil)
	resources := make(map[string][]types.Resource)
	bySet := make(map[string]content.Set)
	for _, s := range sets {
		bySet[s.TypeURL] = s
		for item := range s.Count {
			resources[s.TypeURL] = append(resources[s.TypeURL], s.Message(item, 0))
		}
	}
	version := 0
	set := func() error {
		version++
		next, err := cache.NewSnapshot(strconv.Itoa(version), resources)
		if err != nil {
			return err
		}
		return all.SetSnapshot(ctx, everyNode{}.ID(nil), next)
	}
	if err := set(); err != nil {
		return nil, err
	}
	return openPlane(ctx, all, func(typeURL string, item, revision int) error {
		if item >= len(resources[typeURL]) {
			return noSuchType(typeURL)
		}
		resources[typeURL][item] = bySet[typeURL].Message(item, revision)
		return set()
	})
}
