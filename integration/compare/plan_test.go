package compare

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// clients and steps are how many a walk has.
const (
	clients = 3
	steps   = 24
)

// types are those that walks are about, with few names, so that subscriptions overlap.
var types = []string{plane.Cluster, plane.Endpoints, plane.Listener, plane.Route}

var universe = map[string][]string{
	plane.Cluster:   {"c1", "c2", "c3", "xdstp://a/envoy.config.cluster.v3.Cluster/d/1", "xdstp://a/envoy.config.cluster.v3.Cluster/d/2"},
	plane.Endpoints: {"c1", "c2", "c3", "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e/1"},
	plane.Listener:  {"l1", "l2", "xdstp://a/envoy.config.listener.v3.Listener/f/1?x=y", "xdstp://a/envoy.config.listener.v3.Listener/f/2?x=y"},
	plane.Route:     {"r1", "r2", "r3"},
}

var collections = map[string][]string{
	plane.Cluster:   {"*", "*", "xdstp://a/envoy.config.cluster.v3.Cluster/d/*"},
	plane.Endpoints: {"xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e/*"},
	plane.Listener:  {"*", "*", "xdstp://a/envoy.config.listener.v3.Listener/f/*?x=y"},
	plane.Route:     {"*"},
}

// verb is what a step does.
type verb string

// The verbs. The first ones are the control plane's.
const (
	set     verb = "set"
	unset   verb = "unset"
	spoil   verb = "spoil" // some clients reject the new content
	mend    verb = "mend"
	rollOut verb = "roll out" // several types at once
	fail    verb = "fail"     // an error instead of a resource
	lose    verb = "lose streams"
	stop    verb = "stop"
	start   verb = "start"
	replace verb = "stop, and start with other content"

	subscribe   verb = "subscribe"
	unsubscribe verb = "unsubscribe"
	disconnect  verb = "disconnect"
	connect     verb = "connect"
	forget      verb = "connect as a new client"
	pause       verb = "pause"
	resume      verb = "resume"
	holdACKs    verb = "hold ACKs"
	sendACKs    verb = "send ACKs"
)

// step is one step of a walk.
type step struct {
	verb   verb
	client int // -1: the control plane
	change plane.Change
	failed *plane.Failure
	typed  string
	names  []string
}

func (s step) String() string {
	var words []string
	if s.client >= 0 {
		words = append(words, fmt.Sprint("client ", s.client))
	} else {
		words = append(words, "control plane")
	}
	words = append(words, string(s.verb))
	if s.typed != "" {
		words = append(words, short(s.typed), strings.Join(s.names, " "))
	}
	for _, r := range s.change.Set {
		words = append(words, "+"+r.Name)
	}
	for _, k := range s.change.Remove {
		words = append(words, "-"+k.Name)
	}
	if s.failed != nil {
		words = append(words, "!"+s.failed.Name)
	}
	return strings.Join(words, " ")
}

// short is the last word of a type URL.
func short(typeURL string) string { return typeURL[strings.LastIndexByte(typeURL, '.')+1:] }

// form is how a client speaks.
type form struct{ state, perType bool }

// walk is what a seed decides.
type walk struct {
	seed      uint64
	otherwise string // of aggregation
	apiType   string
	guard     bool
	absent    time.Duration // absent_after
	behaviour plane.Behaviour
	forms     [clients]form
	steps     []step
}

func (w *walk) String() string {
	forms := make([]string, clients)
	for i, f := range w.forms {
		forms[i] = map[bool]string{false: "incremental", true: "state of the world"}[f.state] + map[bool]string{true: " per type"}[f.perType]
	}
	return fmt.Sprintf("aggregation %s, api_type %s, guard %t, absent_after %s, %+v; clients: %s", w.otherwise, w.apiType, w.guard, w.absent, w.behaviour, strings.Join(forms, ", "))
}

// never is a time that no walk takes.
const never = time.Hour

func walkOf(seed uint64) *walk {
	w := &walk{seed: seed, otherwise: []string{"share", "isolate"}[seed%2]}
	w.apiType = []string{"AGGREGATED_DELTA_GRPC", "AGGREGATED_GRPC"}[seed/2%2]
	p := &planner{walk: w, rand: rand.New(rand.NewPCG(seed, 0)), exists: make(map[plane.Key]bool)}
	if seed/4%4 == 0 {
		w.apiType = strings.TrimPrefix(w.apiType, "AGGREGATED_")
	}
	w.guard = p.one(4)
	w.absent = never
	w.behaviour = plane.Behaviour{
		AwaitACK: p.one(2), Absent: plane.AbsentRemoved, EmptyVersions: p.one(4), PerResponse: []int{0, 0, 1, 2}[p.rand.IntN(4)],
		RepeatEndpoints: p.one(2), HeedVersion: p.one(2),
	}
	if p.one(4) {
		w.behaviour.Absent, w.absent = plane.AbsentSilent, time.Second
	}
	for i := range w.forms {
		w.forms[i] = form{state: p.one(2), perType: p.one(3)}
	}
	p.plan()
	return w
}

// planner makes the steps. It knows which state they lead to, so that each does something.
type planner struct {
	walk   *walk
	rand   *rand.Rand
	value  int
	exists map[plane.Key]bool
	bad    []plane.Key // in the order of their being spoilt
	down   bool
	is     [clients]struct{ away, paused, late bool }
}

func (p *planner) one(in int) bool { return p.rand.IntN(in) == 0 }

func (p *planner) add(s step) { p.walk.steps = append(p.walk.steps, s) }

func (p *planner) plan() {
	for i := range clients { // something is there from the start
		p.add(p.subscribes(i))
	}
	p.replaces()
	for len(p.walk.steps) < steps {
		p.next()
	}
	p.end()
}

// next adds a step.
func (p *planner) next() {
	client := p.rand.IntN(clients)
	is := &p.is[client]
	switch n := p.rand.IntN(100); {
	case len(p.bad) > 0 && p.one(2):
		p.add(step{verb: mend, client: -1, change: plane.Change{Set: []plane.Resource{p.resource(p.bad[0], "")}}})
		p.bad = p.bad[1:]
	case n < 18:
		p.add(step{verb: set, client: -1, change: plane.Change{Set: []plane.Resource{p.resource(p.key(), "")}}})
	case n < 26:
		p.removes()
	case n < 34:
		p.spoils()
	case n < 42:
		p.add(step{verb: rollOut, client: -1, change: p.contents()})
	case n < 46:
		k := p.key()
		p.add(step{verb: fail, client: -1, failed: &plane.Failure{Key: k, Code: []int32{5, 7, 13, 14}[p.rand.IntN(4)], Message: "as planned"}})
	case n < 50:
		p.add(step{verb: lose, client: -1})
	case n < 54:
		p.replaces()
	case n < 58:
		p.down = !p.down
		p.add(step{verb: map[bool]verb{true: stop, false: start}[p.down], client: -1})
	case n < 72:
		p.add(p.subscribes(client))
	case n < 80:
		p.add(step{verb: unsubscribe, client: client, typed: p.typed(), names: nil})
		s := &p.walk.steps[len(p.walk.steps)-1]
		s.names = p.some(s.typed)
	case n < 88:
		is.away = !is.away
		p.add(step{verb: map[bool]verb{true: disconnect, false: connect}[is.away], client: client})
	case n < 90:
		is.away, is.paused, is.late = false, false, false
		p.add(step{verb: forget, client: client})
	case n < 95:
		is.paused = !is.paused
		p.add(step{verb: map[bool]verb{true: pause, false: resume}[is.paused], client: client})
	default:
		is.late = !is.late
		p.add(step{verb: map[bool]verb{true: holdACKs, false: sendACKs}[is.late], client: client})
	}
}

// end brings all back. The last step shows that each client follows again.
func (p *planner) end() {
	if p.down {
		p.add(step{verb: start, client: -1})
	}
	for i, is := range p.is {
		if is.paused {
			p.add(step{verb: resume, client: i})
		}
		if is.late {
			p.add(step{verb: sendACKs, client: i})
		}
		if is.away {
			p.add(step{verb: connect, client: i})
		}
	}
	p.add(step{verb: rollOut, client: -1, change: p.contents()})
}

func (p *planner) typed() string { return types[p.rand.IntN(len(types))] }

func (p *planner) key() plane.Key {
	typeURL := p.typed()
	return plane.Key{TypeURL: typeURL, Name: universe[typeURL][p.rand.IntN(len(universe[typeURL]))]}
}

func (p *planner) replaces() {
	clear(p.exists)
	p.bad, p.down = nil, false
	p.add(step{verb: replace, client: -1, change: p.contents()})
}

// removes adds the removal of something that exists.
func (p *planner) removes() {
	var all []plane.Key
	for k := range p.exists {
		all = append(all, k)
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b plane.Key) int {
		return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name))
	})
	k := all[p.rand.IntN(len(all))]
	delete(p.exists, k)
	p.bad = slices.DeleteFunc(p.bad, func(b plane.Key) bool { return b == k })
	p.add(step{verb: unset, client: -1, change: plane.Change{Remove: []plane.Key{k}}})
}

// spoils adds content that one client, or all of them, will reject. It is mended soon: the relay offers such
// content again later and later.
func (p *planner) spoils() {
	k, by := p.key(), fmt.Sprint(rejected, p.rand.IntN(clients))
	if p.one(3) {
		by = rejected + "0 " + rejected + "1 " + rejected + "2"
	}
	p.bad = append(slices.DeleteFunc(p.bad, func(b plane.Key) bool { return b == k }), k)
	p.add(step{verb: spoil, client: -1, change: plane.Change{Set: []plane.Resource{p.resource(k, by)}}})
}

// subscribes is a client's subscription to some names.
func (p *planner) subscribes(client int) step {
	typeURL := p.typed()
	s := step{verb: subscribe, client: client, typed: typeURL, names: p.some(typeURL)}
	if p.one(5) {
		s.names = nil // the wildcard in its legacy form
	}
	return s
}

// some picks names and collections of a type.
func (p *planner) some(typeURL string) []string {
	all := slices.Concat(universe[typeURL], collections[typeURL])
	p.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return slices.Compact(all[:1+p.rand.IntN(3)])
}

// contents changes and removes something of each type.
func (p *planner) contents() plane.Change {
	var c plane.Change
	for _, typeURL := range types {
		for _, name := range universe[typeURL] {
			k := plane.Key{TypeURL: typeURL, Name: name}
			switch p.rand.IntN(4) {
			case 0, 1:
				c.Set = append(c.Set, p.resource(k, ""))
			case 2:
				if p.exists[k] {
					c.Remove = append(c.Remove, k)
					delete(p.exists, k)
				}
			}
		}
	}
	return c
}

// rejected marks content that a client rejects. The client's number follows.
const rejected = "rejected-by-"

// resource is new content, which the clients in rejectedBy reject.
func (p *planner) resource(k plane.Key, rejectedBy string) plane.Resource {
	p.value++
	p.exists[k] = true
	text := fmt.Sprint("v", p.value, " ", rejectedBy)
	return plane.Resource{Name: k.Name, Message: messageOf(k, text), Unlisted: strings.HasPrefix(k.Name, "xdstp") || p.one(8)}
}

// messageOf is a message with a text in it.
func messageOf(k plane.Key, text string) proto.Message {
	switch k.TypeURL {
	case plane.Cluster:
		return &clusterv3.Cluster{
			Name: k.Name, AltStatName: text, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}},
		}
	case plane.Endpoints:
		return &endpointv3.ClusterLoadAssignment{
			ClusterName: k.Name, Endpoints: []*endpointv3.LocalityLbEndpoints{{Locality: &corev3.Locality{Zone: text}, LbEndpoints: []*endpointv3.LbEndpoint{{}}}},
		}
	case plane.Listener:
		return &listenerv3.Listener{Name: k.Name, StatPrefix: text}
	default:
		return &routev3.RouteConfiguration{Name: k.Name, VirtualHosts: []*routev3.VirtualHost{{Name: text, Domains: []string{"*"}}}}
	}
}
