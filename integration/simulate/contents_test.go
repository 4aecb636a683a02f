package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// thing is a resource with one content. It never changes.
type thing struct {
	typeURL, name string
	value         int
	target        string // of a route: its cluster
	message       proto.Message
	unkept        bool // nobody is to keep it (do_not_cache)
	endpoints     int  // of an endpoint set
	ttl           time.Duration
	born          time.Time
}

func (x *thing) key() plane.Key { return plane.Key{TypeURL: x.typeURL, Name: x.name} }

func (x *thing) String() string {
	if x == nil {
		return "nothing"
	}
	s := fmt.Sprintf("%s %s v%d", keyer.ShortName(x.typeURL), x.name, x.value)
	if x.target != "" {
		s += "→" + x.target
	}
	return s
}

// state is everything that there is at one moment. It never changes.
type state map[plane.Key]*thing

// types are those that the contents have.
func types() []string {
	return []string{plane.Cluster, plane.Endpoints, plane.Listener, plane.Route, plane.Secret}
}

const authority = "xdstp://a/"

// universe are the names of a type. Few, so that subscriptions overlap.
func universe(typeURL string) []string {
	in := func(kind, dir string, n int) []string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint(authority, kind, "/", dir, "/", i))
		}
		return all
	}
	switch typeURL {
	case plane.Cluster:
		return append(numbered("c", 8), in("envoy.config.cluster.v3.Cluster", "d", 3)...)
	case plane.Endpoints:
		return append(numbered("c", 8), in("envoy.config.endpoint.v3.ClusterLoadAssignment", "e", 3)...)
	case plane.Listener:
		return append(numbered("l", 3), in("envoy.config.listener.v3.Listener", "f", 3)...)
	case plane.Route:
		return numbered("r", 4)
	default:
		return numbered("s", 2)
	}
}

// globs are the collections of a type.
func globs(typeURL string) []string {
	var all []string
	for _, name := range universe(typeURL) {
		if g := keyer.GlobOf(name); g != "" && !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	return all
}

func numbered(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// secretMark is in what must be nowhere on a disk: each secret, the private key of a cluster, and
// what is not to be kept.
const secretMark = "never-on-a-disk-"

// Where contents are delicate, keyed is a cluster with a private key. Nobody is to keep the endpoints
// unkept, which change with those of unkeptWith, and which no poll asks for.
const keyed, unkept, unkeptWith = "c5", "c8", "c3"

// private reports whether a resource is not for a disk.
func (c *contents) private(k plane.Key) bool {
	return c.delicate && (k == plane.Key{TypeURL: plane.Cluster, Name: keyed} || k == plane.Key{TypeURL: plane.Endpoints, Name: unkept})
}

// makeThing makes a resource. A cluster with an even number asks for its endpoints by EDS.
func makeThing(typeURL, name string, value int, target string, delicate bool) *thing {
	x := &thing{typeURL: typeURL, name: name, value: value, target: target}
	x.unkept = delicate && typeURL == plane.Endpoints && name == unkept
	switch typeURL {
	case plane.Cluster:
		c := &clusterv3.Cluster{Name: name, ConnectTimeout: &durationpb.Duration{Seconds: int64(value)}}
		if last := name[len(name)-1]; last%2 == 0 && !strings.HasPrefix(name, authority) {
			c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
			c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
				ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
			}}
		}
		if delicate && name == keyed {
			c.TransportSocket = withPrivateKey(fmt.Sprint(secretMark, value))
		}
		x.message = c
	case plane.Endpoints:
		p := &endpointv3.ClusterLoadAssignment_Policy{EndpointStaleAfter: &durationpb.Duration{Seconds: int64(value)}}
		if x.unkept {
			p.DropOverloads = []*endpointv3.ClusterLoadAssignment_Policy_DropOverload{{Category: secretMark}}
		}
		x.message = &endpointv3.ClusterLoadAssignment{ClusterName: name, Policy: p}
	case plane.Listener:
		x.message = &listenerv3.Listener{Name: name, StatPrefix: fmt.Sprint("v", value)}
	case plane.Route:
		x.message = &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
			Name: fmt.Sprint("v", value), Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: target}}},
			}},
		}}}
	default:
		x.message = &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{
			Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: fmt.Sprint(secretMark, value)}},
		}}}
	}
	return x
}

// withPrivateKey is TLS with a key that stands in the configuration itself.
func withPrivateKey(key string) *corev3.TransportSocket {
	tls, err := anypb.New(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{{
		PrivateKey: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: key}},
	}}}})
	if err != nil {
		panic(err) // a message that we made
	}
	return &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: tls}}
}

// contents is what the control planes have, now and before. Each control plane has one of
// its states: the last one, or an older one.
type contents struct {
	delicate bool // see makeThing; immutable

	mu      sync.Mutex
	history []state
	made    int               // values so far
	known   map[string]*thing // by type and payload: all that there ever was
	lacked  map[string]span   // by plane, type and name: when it was last missing there
	planes  map[string]*atPlane
}

// atPlane is a control plane as far as its contents go.
type atPlane struct {
	plane  *plane.Plane
	now    state
	spared map[plane.Key]bool // what it lost, which counts as if it had it: see empty
}

// span is a time in which something was missing. until is zero while it is.
type span struct{ since, until time.Time }

func newContents(delicate bool) *contents {
	c := &contents{delicate: delicate, known: make(map[string]*thing), lacked: make(map[string]span), planes: make(map[string]*atPlane)}
	first := make(state)
	add := func(typeURL, name, target string) {
		x := c.makeLocked(typeURL, name, target)
		first[x.key()] = x
	}
	for _, name := range []string{"c0", "c1", "c2", "c3"} {
		add(plane.Cluster, name, "")
		add(plane.Endpoints, name, "")
	}
	for i, name := range universe(plane.Route) {
		add(plane.Route, name, fmt.Sprint("c", i))
	}
	if delicate {
		add(plane.Endpoints, unkept, "")
	}
	add(plane.Listener, "l0", "")
	add(plane.Listener, "l1", "")
	add(plane.Secret, "s0", "")
	for _, typeURL := range []string{plane.Cluster, plane.Endpoints, plane.Listener} {
		for _, name := range universe(typeURL) {
			if strings.HasSuffix(name, "/0") || strings.HasSuffix(name, "/1") {
				add(typeURL, name, "")
			}
		}
	}
	c.history = []state{first}
	return c
}

// makeLocked makes a content that there never was.
func (c *contents) makeLocked(typeURL, name, target string) *thing {
	c.made++
	x := makeThing(typeURL, name, c.made, target, c.delicate)
	c.noteLocked(x)
	return x
}

// noteLocked notes that there is a content.
func (c *contents) noteLocked(x *thing) {
	x.born = time.Now()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(x.message)
	if err != nil {
		panic(err) // a message that we made
	}
	c.known[x.typeURL+" "+string(b)] = x
}

// find is the content that a payload has, encoded as an Any; nil if there never was one.
func (c *contents) find(encoded []byte) *thing {
	var a anypb.Any
	if err := proto.Unmarshal(encoded, &a); err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[a.GetTypeUrl()+" "+string(a.GetValue())]
}

// latest is the last state.
func (c *contents) latest() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history[len(c.history)-1]
}

// older is the state some changes ago.
func (c *contents) older(by int) state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history[max(0, len(c.history)-1-by)]
}

// change makes the next state of the last one. It reports what it did; "" for nothing.
func (c *contents) change(do func(next state) string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := maps.Clone(c.history[len(c.history)-1])
	what := do(next)
	if what != "" {
		c.history = append(c.history, next)
	}
	return what
}

// set changes a resource, or adds it. Routes keep their cluster.
func (c *contents) set(typeURL, name string) string {
	return c.change(func(next state) string {
		k := plane.Key{TypeURL: typeURL, Name: name}
		target := ""
		if old := next[k]; old != nil {
			target = old.target
		}
		if typeURL == plane.Route && target == "" {
			return ""
		}
		next[k] = c.makeLocked(typeURL, name, target)
		what := "set " + next[k].String()
		if c.delicate && typeURL == plane.Endpoints && name == unkeptWith {
			k.Name = unkept
			next[k] = c.makeLocked(typeURL, unkept, "")
			what += ", " + next[k].String()
		}
		return what
	})
}

// unset removes a resource. Clusters that a route leads to stay, and routes do.
func (c *contents) unset(typeURL, name string) string {
	return c.change(func(next state) string {
		k := plane.Key{TypeURL: typeURL, Name: name}
		if next[k] == nil || typeURL == plane.Route || typeURL == plane.Cluster && leadsTo(next, name) {
			return ""
		}
		delete(next, k)
		return "unset " + keyer.ShortName(typeURL) + " " + name
	})
}

// stir changes many resources of a type at once: some have other contents then, come, or go.
func (c *contents) stir(typeURL string, how uint64) string {
	return c.change(func(next state) string {
		var all []string
		for _, name := range universe(typeURL) {
			k := plane.Key{TypeURL: typeURL, Name: name}
			switch chance(how, typeURL, name) % 5 {
			case 0, 1:
				next[k] = c.makeLocked(typeURL, name, "")
				all = append(all, "set "+next[k].String())
			case 2:
				if next[k] != nil && (typeURL != plane.Cluster || !leadsTo(next, name)) {
					delete(next, k)
					all = append(all, "unset "+keyer.ShortName(typeURL)+" "+name)
				}
			}
		}
		return strings.Join(all, ", ")
	})
}

func leadsTo(s state, cluster string) bool {
	for k, x := range s {
		if k.TypeURL == plane.Route && x.target == cluster {
			return true
		}
	}
	return false
}

// move leads a route to another cluster that there is.
func (c *contents) move(name, target string) string {
	return c.change(func(next state) string {
		k := plane.Key{TypeURL: plane.Route, Name: name}
		if next[plane.Key{TypeURL: plane.Cluster, Name: target}] == nil || next[k].target == target {
			return ""
		}
		next[k] = c.makeLocked(plane.Route, name, target)
		return "set " + next[k].String()
	})
}

// give brings a control plane to a state: what is new first, and what has gone a second
// later, as one does that makes before it breaks.
func (c *contents) give(host string, p *plane.Plane, next state) {
	change := c.difference(host, p, next)
	p.Apply(plane.Change{Set: change.Set})
	if len(change.Remove) > 0 {
		if len(change.Set) > 0 {
			time.Sleep(time.Second)
		}
		p.Apply(plane.Change{Remove: change.Remove})
	}
}

// giveAtOnce does so in one step.
func (c *contents) giveAtOnce(host string, p *plane.Plane, next state) {
	p.Apply(c.difference(host, p, next))
}

// difference is what a control plane is told to come to a state. It counts as having it.
func (c *contents) difference(host string, p *plane.Plane, next state) (change plane.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.planes[host]
	if at == nil {
		at = &atPlane{plane: p, now: make(state)}
		c.planes[host] = at
		for _, typeURL := range types() {
			for _, name := range universe(typeURL) {
				c.lackLocked(host, plane.Key{TypeURL: typeURL, Name: name})
			}
		}
	}
	for _, k := range sortedKeys(next) {
		x := next[k]
		if at.now[k] == x {
			continue
		}
		change.Set = append(change.Set, plane.Resource{Name: x.name, Message: x.message, DoNotCache: x.unkept, TTL: x.ttl})
		if at.now[k] == nil {
			c.hasLocked(host, k)
		}
	}
	was := at.now
	at.now = next
	for k := range was {
		if next[k] == nil {
			c.lackLocked(host, k)
		}
	}
	for k := range at.spared {
		if next[k] == nil {
			c.lackLocked(host, k)
		}
	}
	for _, k := range sortedKeys(was) {
		if next[k] == nil {
			change.Remove = append(change.Remove, k)
		}
	}
	return change
}

// forget empties a control plane that is stopped.
func (c *contents) forget(host string, p *plane.Plane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.planes[host]; at != nil {
		for k := range at.now {
			c.lackLocked(host, k)
		}
		at.now = make(state)
	}
	p.Forget()
}

func lackKey(host string, k plane.Key) string { return host + " " + k.TypeURL + " " + k.Name }

func (c *contents) lackLocked(host string, k plane.Key) {
	c.lacked[lackKey(host, k)] = span{since: time.Now()}
}

func (c *contents) hasLocked(host string, k plane.Key) {
	if s := c.lacked[lackKey(host, k)]; s.until.IsZero() {
		s.until = time.Now()
		c.lacked[lackKey(host, k)] = s
	}
}

// lackedSince reports whether any control plane was without a resource at some time after
// a moment.
func (c *contents) lackedSince(k plane.Key, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for host := range c.planes {
		s, ok := c.lacked[lackKey(host, k)]
		if ok && (s.until.IsZero() || s.until.After(since)) {
			return true
		}
	}
	return false
}

func sortedKeys(s state) []plane.Key {
	return slices.SortedFunc(maps.Keys(s), func(a, b plane.Key) int {
		return strings.Compare(a.TypeURL+" "+a.Name, b.TypeURL+" "+b.Name)
	})
}
