package upstream

import (
	"maps"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// fileLife is the ttl of a resource that the Store was told. It begins when the Store is
// given the resource first, and anew when the file changes or the name is asked for anew.
// Other resources that the Store is given do not renew it (TTL-2).
type fileLife struct {
	resource *wire.Resource // the same pointer as long as its file did not change
	until    time.Time
}

// begin notes that the Store is told of a resource, which begins its ttl.
func (l *fileLine) begin(r *wire.Resource, now time.Time) {
	key, err := keyer.Key(r.Name)
	if err != nil || !r.HasTTL || r.DoNotCache {
		return
	}
	if l.lives == nil {
		l.lives = make(map[string]fileLife)
	}
	l.lives[key] = fileLife{r, now.Add(r.TTL())}
}

// timed returns the resources as the Store is to be given them now. resources are by
// canonical name. The Store has those whose ttl runs: a complete list (whole) mentions them
// with the remaining ttl, and leaves out those whose ttl ran out.
func (l *fileLine) timed(resources map[string]*wire.Resource, now time.Time, whole bool) []*wire.Resource {
	if whole {
		maps.DeleteFunc(l.lives, func(key string, life fileLife) bool { return resources[key] != life.resource })
	}
	out := make([]*wire.Resource, 0, len(resources))
	for key, r := range resources {
		switch life := l.lives[key]; {
		case life.resource != r:
			l.begin(r, now)
			out = append(out, r)
		case whole && now.Before(life.until):
			out = append(out, mention(r, life.until.Sub(now)))
		}
	}
	return out
}

// mention is a heartbeat of a resource: it has no payload (TTL-3).
func mention(r *wire.Resource, ttl time.Duration) *wire.Resource {
	bare, err := wire.NewResource(&discoveryv3.Resource{Name: r.Name, Version: r.Version, Ttl: durationpb.New(ttl)})
	if err != nil {
		return r // never: its strings were read from the resource
	}
	return bare
}

// renew has new names answered with the whole resource.
func (l *fileLine) renew(now *fileType, names []string) {
	if len(l.lives) == 0 {
		return
	}
	for _, name := range names {
		key, err := keyer.Key(name)
		if err != nil {
			continue
		}
		delete(l.lives, key)
		if r := now.named(key); r != nil { // by an alias it may be (RES-10)
			if key, err = keyer.Key(r.Name); err == nil {
				delete(l.lives, key)
			}
		}
	}
}

// endLives forgets the ttls of resources that are not wanted any more: the Store has dropped
// them.
func (l *fileLine) endLives() {
	if len(l.lives) == 0 {
		return
	}
	left := l.told.covered(l.wanted)
	maps.DeleteFunc(l.lives, func(key string, _ fileLife) bool {
		return left[key] == nil && (l.kept[key] == nil || !l.wants(key))
	})
}
