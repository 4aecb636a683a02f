package gocontrolplane

import (
	"context"
	"fmt"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
)

// NewSnapshot makes a control plane with a SnapshotCache that has one snapshot
// for all nodes, in its ADS mode. It serves [Types], and a resource's name is
// the one that its message holds. A SotW client that names resources is not
// answered in this mode unless it names every resource of the type.
func NewSnapshot() *ControlPlane { return newSnapshot(true) }

// NewPlainSnapshot is NewSnapshot without the ADS mode: a SotW client gets what
// it names, and the variants with a stream for each type are what it is for.
func NewPlainSnapshot() *ControlPlane { return newSnapshot(false) }

func newSnapshot(ads bool) *ControlPlane {
	return newControlPlane(func() caches {
		return &snapshot{all: cache.NewSnapshotCache(ads, oneGroup{}, nil)}
	})
}

// oneGroup takes all nodes for one.
type oneGroup struct{}

const everyNode = "every node"

// ID implements cache.NodeHash.
func (oneGroup) ID(*corev3.Node) string { return everyNode }

// snapshot is a SnapshotCache.
type snapshot struct {
	all     cache.SnapshotCache
	version uint64
}

func (s *snapshot) cache() cache.Cache { return s.all }

func (s *snapshot) load(state map[string]map[string]resource) error {
	s.version++
	byType := make(map[string][]types.Resource, len(state))
	for url, of := range state {
		for name, r := range of {
			if own := cache.GetResourceName(r.message); own != name {
				return fmt.Errorf("a snapshot cannot serve %q as %q", own, name)
			}
			byType[url] = append(byType[url], r.message)
		}
	}
	next, err := cache.NewSnapshot(strconv.FormatUint(s.version, 10), byType)
	if err != nil {
		return err
	}
	// The context would end a send that blocks; the server's channels have room.
	return s.all.SetSnapshot(context.Background(), everyNode, next)
}

func (s *snapshot) changed(state map[string]map[string]resource, _, _ string) error {
	return s.load(state)
}
