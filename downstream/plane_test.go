package downstream

import (
	"maps"
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routeType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	unknownType  = "type.googleapis.com/example.Unheard"
)

// plane is a control plane, and the session that feeds a store from it. It is
// used by the test's goroutine only and does what it is told when it is told:
// what is asked of it is answered by pump.
type plane struct {
	identifier string // what its responses say of who sends them (STR-10)

	tb      testing.TB
	store   *cache.Store
	exists  map[string]map[string]*discovery.Resource // by type URL and canonical name
	hidden  map[string]bool                           // names that "*" does not mean
	starred map[string]bool                           // xdstp names that it does
	errors  map[string]codes.Code                     // what asking for a name is answered with
	asked   map[string]int                            // how often a name was subscribed to
	streams [2]map[string]map[string]bool             // what each stream subscribes to, by type URL
	silent  bool                                      // does not answer
	away    bool                                      // cannot be reached
}

func newPlane(tb testing.TB, store *cache.Store) *plane {
	tb.Helper()
	return &plane{
		tb: tb, store: store, exists: map[string]map[string]*discovery.Resource{},
		hidden: map[string]bool{}, errors: map[string]codes.Code{}, asked: map[string]int{},
	}
}

// resourceOf is a resource whose payload tells its name and version.
func resourceOf(typeURL, name, version string) *discovery.Resource {
	return &discovery.Resource{
		Name: name, Version: version,
		Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte(name + "@" + version)},
	}
}

// set gives names a version, in one response.
func (p *plane) set(typeURL, version string, names ...string) {
	p.tb.Helper()
	resources := make([]*discovery.Resource, 0, len(names))
	for _, name := range names {
		resources = append(resources, resourceOf(typeURL, name, version))
	}
	p.put(typeURL, resources...)
}

// put changes resources, in one response.
func (p *plane) put(typeURL string, resources ...*discovery.Resource) {
	p.tb.Helper()
	if p.exists[typeURL] == nil {
		p.exists[typeURL] = map[string]*discovery.Resource{}
	}
	for _, r := range resources {
		p.exists[typeURL][p.key(r.Name)] = r
	}
	for stream, subs := range p.streams {
		resp := &wire.Response{TypeURL: typeURL, Version: "system-" + resources[0].Version}
		for _, r := range resources {
			if p.covered(subs[typeURL], p.key(r.Name)) {
				resp.Resources = append(resp.Resources, p.wire(r))
			}
		}
		p.apply(stream, resp)
	}
}

// unset removes names, in one response.
func (p *plane) unset(typeURL string, names ...string) {
	p.tb.Helper()
	for stream, subs := range p.streams {
		resp := &wire.Response{TypeURL: typeURL}
		for _, name := range names {
			if p.covered(subs[typeURL], p.key(name)) {
				resp.Removed = append(resp.Removed, name)
			}
		}
		p.apply(stream, resp)
	}
	for _, name := range names {
		delete(p.exists[typeURL], p.key(name))
	}
}

// pump takes what the store demands and answers it. It reports whether there was
// anything to do.
func (p *plane) pump() bool {
	p.tb.Helper()
	worked := false
	if p.away {
		return false
	}
	for stream := range p.streams {
		var subs []wire.Subscription
		switch {
		case p.streams[stream] != nil:
			var ok bool
			if subs, ok = p.store.Session().TakeDemand(wire.StreamID{Second: stream == 1}); !ok {
				p.lose(stream)
				worked = true
				continue
			}
		case p.store.Session().StreamWanted(wire.StreamID{Second: stream == 1}):
			p.streams[stream] = map[string]map[string]bool{}
			subs = p.store.Session().Restart(wire.StreamID{Second: stream == 1}, 1<<20)
		}
		for _, sub := range subs {
			p.answer(stream, sub)
			worked = true
		}
	}
	return worked
}

// lose breaks a stream; the next pump opens it again.
func (p *plane) lose(stream int) {
	p.streams[stream] = nil
	p.store.Session().Lost(wire.StreamID{Second: stream == 1})
}

func (p *plane) answer(stream int, sub wire.Subscription) {
	p.tb.Helper()
	subs := p.streams[stream][sub.TypeURL]
	if subs == nil {
		subs = map[string]bool{}
		p.streams[stream][sub.TypeURL] = subs
	}
	for _, name := range sub.Unsubscribe {
		delete(subs, p.key(name))
	}
	fresh := map[string]bool{}
	for _, name := range sub.Subscribe {
		subs[p.key(name)], fresh[p.key(name)] = true, true
		p.asked[p.key(name)]++
	}
	if p.silent {
		return
	}
	resp := &wire.Response{TypeURL: sub.TypeURL, Version: "system-1"}
	for _, key := range slices.Sorted(maps.Keys(p.exists[sub.TypeURL])) {
		if r := p.exists[sub.TypeURL][key]; p.covered(fresh, key) && sub.Versions[r.Name] != r.Version {
			resp.Resources = append(resp.Resources, p.wire(r))
		}
	}
	p.absent(resp, fresh)
	p.apply(stream, resp)
	if fresh[cache.Wildcard] && len(resp.Resources)+len(resp.Removed) == 0 {
		// "*" is answered even if it means nothing.
		p.must(p.store.Session().Apply(wire.StreamID{Second: stream == 1}, resp, time.Now()))
	}
}

// absent tells which of the fresh names do not exist, or cannot be had.
func (p *plane) absent(resp *wire.Response, fresh map[string]bool) {
	for _, key := range slices.Sorted(maps.Keys(fresh)) {
		switch code, failed := p.errors[key]; {
		case failed:
			resp.Errors = append(resp.Errors, wire.ResourceError{Name: key, Code: code, Message: "cannot be had"})
		case key == cache.Wildcard || p.exists[resp.TypeURL][key] != nil:
		case keyer.IsGlob(key) && slices.ContainsFunc(slices.Collect(maps.Keys(p.exists[resp.TypeURL])),
			func(name string) bool { return keyer.GlobOf(name) == key }):
		default:
			resp.Removed = append(resp.Removed, key)
		}
	}
}

// settle lets the quiet time of collections pass.
func (p *plane) settle() { p.store.Session().Settle(time.Now().Add(time.Hour)) }

func (p *plane) apply(stream int, r *wire.Response) {
	p.tb.Helper()
	if p.streams[stream] == nil || len(r.Resources)+len(r.Removed)+len(r.Errors) == 0 {
		return
	}
	r.ControlPlane = p.identifier
	p.must(p.store.Session().Apply(wire.StreamID{Second: stream == 1}, r, time.Now()))
}

func (p *plane) covered(subs map[string]bool, key string) bool {
	g := keyer.GlobOf(key)
	starred := (g == "" && !p.hidden[key]) || p.starred[key]
	return subs[key] || (g != "" && subs[g]) || (starred && subs[cache.Wildcard])
}

func (p *plane) wire(r *discovery.Resource) *wire.Resource {
	p.tb.Helper()
	w, err := wire.NewResource(r)
	p.must(err)
	return w
}

func (p *plane) key(name string) string {
	p.tb.Helper()
	key, err := keyer.Key(name)
	p.must(err)
	return key
}

func (p *plane) must(err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Fatal(err)
	}
}
