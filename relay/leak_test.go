package relay

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

var leakFrom = flag.Int("leak.from", 0, "the first of the schedules of leak.seeds")

var leakSeeds = flag.Int("leak.seeds", 20, "random schedules of the property of access rules in a whole relay")

const (
	edsType      = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	clustersList = "type.googleapis.com/envoy.config.cluster.v3.ClusterCollection"
	clusterNames = "xdstp://a/envoy.config.cluster.v3.Cluster/"
	listNames    = "xdstp://a/envoy.config.cluster.v3.ClusterCollection/"
)

// leak is one random schedule: a relay with access rules, a control plane with the resources of
// several tenants, and clients of all forms.
type leak struct {
	*bubbled

	random  *rand.Rand
	plane   *leakPlane
	config  *config.Config
	rules   *rules.Access
	sides   map[string]*bufconn.Listener // by listener
	people  []*leakClient
	number  int
	tenants []string
	answers map[string]string // of denied names, by form and rule
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// condition draws an expression of access rules.
func (x *leak) condition(depth int) string {
	if depth > 0 {
		switch x.random.IntN(4) {
		case 0:
			return "(" + x.condition(depth-1) + " && " + x.condition(depth-1) + ")"
		case 1:
			return "(" + x.condition(depth-1) + " || " + x.condition(depth-1) + ")"
		case 2:
			return "!(" + x.condition(depth-1) + ")"
		}
	}
	tenant := pick(x.random, x.tenants)
	return fmt.Sprintf(pick(x.random, []string{
		`node.cluster == %q`, `name.contains(%q)`, `xdstp.id.startsWith(%q)`, `(node.cluster == %q && name.contains(node.cluster))`,
		`(%q != "" && name.contains(node.cluster))`, `(name == "*" || name.contains(%q))`, `(type == eds && name != %q)`,
		`(type == cds && %q != node.cluster)`, `(listener == "side" && node.cluster != %q)`, `node.metadata.tenant == %q`,
		`(has(node.metadata.tenant) || node.id.startsWith(%q + "-"))`, `(node.cluster + "-c1" == name && %q != "")`,
		`(name.endsWith("1") || name == %q)`, `(xdstp.authority == "a" && node.cluster != %q)`,
	}), tenant)
}

// draw draws access rules.
func (x *leak) draw() (a config.Access) {
	a.Otherwise = pick(x.random, []config.Effect{config.Allow, config.Deny})
	seen := make(map[string]bool)
	for i := range x.random.IntN(5) {
		match := x.condition(2)
		if seen[match] {
			continue // such a rule is refused: it is never reached
		}
		seen[match] = true
		a.Rules = append(a.Rules, config.AccessRule{
			Name: fmt.Sprintf("rule-%d", i), Match: match, Effect: pick(x.random, []config.Effect{config.Allow, config.Deny}),
		})
	}
	return a
}

// adopt has the judge go by access rules.
func (x *leak) adopt(a config.Access) {
	x.Helper()
	c := rules.AccessConfig{Allow: a.Otherwise == config.Allow}
	for _, r := range a.Rules {
		c.Rules = append(c.Rules, rules.AccessRule{Name: r.Name, Match: r.Match, Allow: r.Effect == config.Allow})
	}
	compiled, problems := rules.CompileAccess(c)
	if len(problems) > 0 {
		x.Fatal(problems)
	}
	x.rules = compiled
	for _, p := range x.people {
		x.judge(p)
	}
}

func (x *leak) judge(c *leakClient) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subject = x.rules.Subject(c.node, keyer.Peer{Listener: c.listener})
}

// universe are the names of a type, of which the last of each tenant never exists.
func (x *leak) universe(typeURL string) (names []string) {
	for _, tenant := range x.tenants {
		for i := range 4 {
			last := fmt.Sprint(i)
			if i == 3 {
				last = "ghost1"
			}
			switch typeURL {
			case clusterType:
				names = append(names, tenant+"-c"+last)
			case edsType:
				names = append(names, tenant+"-e"+last)
			case clustersList:
				names = append(names, listNames+tenant+"/l"+last)
			}
		}
	}
	return names
}

// named are the xdstp names of clusters.
func (x *leak) named(kind string) (names []string) {
	for _, tenant := range x.tenants {
		for i := range 3 {
			names = append(names, fmt.Sprintf("%s%s/%s%d", clusterNames, tenant, kind, i))
		}
	}
	return names
}

// act has the control plane change something.
func (x *leak) act() {
	x.number++
	some := func(names []string) string {
		for {
			if n := pick(x.random, names); !strings.Contains(n, "ghost") {
				return n
			}
		}
	}
	gone := x.random.IntN(4) == 0
	var typeURL, name string
	r := &owned{version: x.number}
	switch x.random.IntN(6) {
	case 0, 1:
		typeURL, name, r.inStar = clusterType, some(x.universe(clusterType)), true
		if x.random.IntN(2) == 0 {
			r.aliases = []string{pick(x.random, x.tenants) + "-alias" + fmt.Sprint(x.random.IntN(2))}
		}
		r.payload = x.cluster(name, clusterType, name)
	case 2:
		typeURL, name = edsType, some(x.universe(edsType))
		r.payload = x.pack(&endpointv3.ClusterLoadAssignment{ClusterName: name, NamedEndpoints: map[string]*endpointv3.Endpoint{stampOf(edsType, name): {Hostname: fmt.Sprint(x.number)}}})
	case 3:
		typeURL, name = clusterType, some(x.named("x"))
		r.payload = x.cluster(name, clusterType, name)
	case 4:
		typeURL, name = clusterType, some(x.named("r"))
		target, err := keyer.Parse(pick(x.random, slices.Concat(x.named("x"), x.named("r"))))
		if err != nil {
			x.Fatal(err)
		}
		r.payload = x.pack(&xdscorev3.ResourceLocator{Authority: target.Authority, ResourceType: target.Type, Id: target.ID})
	default:
		typeURL, name = clustersList, some(x.universe(clustersList))
		list := &clusterv3.ClusterCollection{Entries: &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{
			Locator: &xdscorev3.ResourceLocator{Authority: "a", ResourceType: "envoy.config.cluster.v3.Cluster", Id: strings.TrimPrefix(pick(x.random, x.named("x")), clusterNames)},
		}}}
		if x.random.IntN(2) == 0 {
			list.Entries.ResourceSpecifier = &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{
				Name: "inline", Version: fmt.Sprint(x.number), Resource: x.cluster("inline", clustersList, name),
			}}
		}
		r.payload = x.pack(list)
	}
	if gone {
		r = nil
	}
	x.plane.put(typeURL, name, r)
}

func (x *leak) pack(m proto.Message) *anypb.Any {
	x.Helper()
	a, err := anypb.New(m)
	if err != nil {
		x.Fatal(err)
	}
	return a
}

// cluster is a cluster with the stamp of its owner.
func (x *leak) cluster(name, ownerType, owner string) *anypb.Any {
	return x.pack(&clusterv3.Cluster{Name: name, AltStatName: stampOf(ownerType, owner) + fmt.Sprint(x.number)})
}

// wish draws what a client may want.
func (x *leak) wish(form leakForm) (typeURL, name string) {
	switch n := x.random.IntN(10); {
	case n == 0:
		return clusterType, "*"
	case n == 1:
		return clusterType, pick(x.random, x.universe(clusterType))
	case n == 2 && form != polling:
		return clusterType, pick(x.random, x.tenants) + "-alias" + fmt.Sprint(x.random.IntN(2))
	case n == 3:
		return edsType, pick(x.random, x.universe(edsType))
	case n == 4 && form == asksForChanges:
		return clustersList, pick(x.random, x.universe(clustersList))
	case n == 5 && form != polling:
		return clusterType, clusterNames + pick(x.random, x.tenants) + "/*"
	case n == 6 && form != polling:
		return clusterType, pick(x.random, x.named("x")) + "#alt=" + pick(x.random, x.named("x"))
	case n == 7 && form != polling:
		return clusterType, pick(x.random, x.named("r"))
	case n == 8:
		return clusterType, pick(x.random, x.named("x"))
	default:
		return edsType, pick(x.random, x.universe(edsType))
	}
}

// join brings a client.
func (x *leak) join() {
	tenant := pick(x.random, x.tenants)
	c := &leakClient{
		T: x.T, form: leakForm(x.random.IntN(int(leakForms))), listener: pick(x.random, []string{"default", "side"}),
		node: &corev3.Node{Id: fmt.Sprintf("%s-%d", tenant, len(x.people)), Cluster: tenant},
		subs: make(map[string]map[string]bool), held: make(map[string]map[string]string), shown: make(map[string]map[string]bool),
		told: make(map[string]*leakAnswer), versions: make(map[string]string), presented: make(map[string]bool), listed: make(map[string]bool),
	}
	if c.at = x.sides[c.listener]; c.form == polling {
		c.listener, c.at = "default", x.rest
	}
	x.judge(c)
	for range 1 + x.random.IntN(4) {
		typeURL, name := x.wish(c.form)
		put(c.subs, typeURL, name, true)
	}
	c.connect(nil)
	x.people = append(x.people, c)
}

// comeBack has a client begin a stream anew, with what it holds, and with guesses.
func (x *leak) comeBack(c *leakClient, guesses bool) {
	c.leave()
	var guessed map[string]string
	if guesses {
		guessed = make(map[string]string)
		guessed[pick(x.random, x.tenants)+"-cghost1"] = "1"
		for range 5 {
			guessed[pick(x.random, x.universe(clusterType))] = fmt.Sprint(x.random.IntN(x.number + 1))
		}
	}
	c.connect(guessed)
}

// reload changes the access rules.
func (x *leak) reload() {
	next := *x.config
	next.Access = x.draw()
	next.Access.Verify = x.config.Access.Verify
	x.adopt(next.Access)
	if err := x.relay.Reload(&next); err != nil {
		x.Fatal(err)
	}
	x.config = &next
}

// quiet waits until nothing goes on, and has those connect again whose streams ended.
func (x *leak) quiet() {
	for range 3 {
		<-time.After(3 * time.Second)
		synctest.Wait()
		again := false
		for _, c := range x.people {
			c.mu.Lock()
			ended := c.ended
			c.mu.Unlock()
			if ended {
				x.comeBack(c, false)
				again = true
			}
		}
		if !again {
			return
		}
	}
}

// look has the clients that poll do so, and gives what is wrong.
func (x *leak) look() string {
	for i, c := range x.people {
		if c.form == polling {
			c.poll()
		}
		c.mu.Lock()
		wrong := c.wrong
		if len(wrong) == 0 {
			wrong = x.alike(c)
		}
		c.mu.Unlock()
		if len(wrong) > 0 {
			return fmt.Sprintf("client %d (form %d, %s, by %s): %q", i, c.form, c.node.GetId(), c.listener, wrong)
		}
	}
	return ""
}

// alike holds the answers to denied names to saying nothing but the rule that denies. The client is
// locked.
func (x *leak) alike(c *leakClient) (wrong []string) {
	guessed := make(map[bool]string) // by whether it was told that they are gone
	for _, name := range c.guesses {
		a := c.told[clusterType+" "+name]
		guessed[a != nil && a.removed] = name
	}
	if len(guessed) > 1 && c.form == asksForChanges && c.subs[clusterType]["*"] && c.allowedLocked(clusterType, "*") && !c.ended {
		wrong = append(wrong, fmt.Sprintf("it guessed %s and %s, and is told of the first one only that it is gone", guessed[true], guessed[false]))
	}
	for typeURL, names := range c.subs {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			d, _ := c.subject.Subscription(typeURL, name)
			if d.Allowed || c.ended {
				continue
			}
			a := c.told[typeURL+" "+name]
			if a == nil {
				a = new(leakAnswer)
			}
			if c.form != asksForChanges && a.code == codes.OK && (c.presented[typeURL] || !c.listed[typeURL]) {
				continue // the answer goes with a list, which is not sent as long as it waits, or is as the client has it
			}
			if a.code != codes.PermissionDenied {
				wrong = append(wrong, fmt.Sprintf("%s is denied, and the client is told %+v", name, *a))
			}
			kind := "name"
			switch {
			case name == "*":
				kind = name
			case strings.HasSuffix(name, "*"):
				kind = "glob"
			}
			key, got := fmt.Sprint(c.form, kind, a.by), fmt.Sprintf("%+v", *a)
			if before, is := x.answers[key]; is && before != got {
				wrong = append(wrong, fmt.Sprintf("%s is denied and told %s, another name %s", name, got, before))
			}
			x.answers[key] = got
		}
	}
	return wrong
}

// playLeak plays a schedule, and gives what went wrong. judge takes a check out; nil: none.
func playLeak(t *testing.T, seed uint64, judge func(downstream.Access) downstream.Access) (wrong string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &leak{
			random: rand.New(rand.NewPCG(seed, 2)), plane: newLeakPlane(), answers: make(map[string]string),
			sides: map[string]*bufconn.Listener{"side": bufconn.Listen(1 << 20)},
		}
		x.tenants = []string{"ta", "tb", "tc", "td"}[:2+x.random.IntN(3)]
		access := x.draw()
		x.bubbled = runBubbledBefore(t, x.plane, func(c *config.Config) {
			c.Access = access
			c.Server.RESTWait = config.Duration(2 * time.Second)
			c.Server.Listeners = []config.Listener{listenerAt("side", "127.0.0.1:0")}
			c.Aggregation.Otherwise = config.Share
			c.Resolve.Prefetch = true
			u := &c.Upstreams[0]
			u.Keepalive.Time = 0 // nobody is idle for so long but in a bubble
			u.Authorities, u.Redirects, u.Settle = []string{"a"}, config.FollowRedirects, config.Duration(100*time.Millisecond)
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			x.config = c
		}, func(r *Relay) {
			r.router.judge = judge
			if err := r.ServeListener("side", x.sides["side"]); err != nil {
				t.Fatal(err)
			}
		})
		x.sides["default"] = x.xds
		defer func() {
			for _, c := range x.people {
				c.leave()
			}
		}()
		x.adopt(access)
		synctest.Wait()
		for range 12 {
			x.act()
		}
		x.join()
		x.quiet() // what is on its way when a reload comes may be allowed by the rules before
		for range 25 {
			switch n := x.random.IntN(12); {
			case n <= 1 && len(x.people) < 6:
				x.join()
			case n == 2:
				x.comeBack(pick(x.random, x.people), true)
			case n == 3:
				x.reload()
			case n <= 5:
				c := pick(x.random, x.people)
				typeURL, name := x.wish(c.form)
				c.wants(typeURL, []string{name}, nil)
			case n == 6:
				c := pick(x.random, x.people)
				typeURL, _ := x.wish(c.form)
				if names := slices.Sorted(maps.Keys(c.subs[typeURL])); len(names) > 1 {
					c.wants(typeURL, nil, []string{pick(x.random, names)})
				}
			default:
				x.act()
			}
			x.quiet()
			if wrong = x.look(); wrong != "" {
				wrong += fmt.Sprintf(" with %+v", x.config.Access)
				break
			}
		}
	})
	return wrong
}

// Before a whole relay with random rules, whose clients use all forms, no client is sent a byte of what
// its rules deny, or a name of that which it did not give itself, and its answer to a denied name says
// nothing but the rule.
func TestAccessLeaksNothing_ACC2_ACC3(t *testing.T) {
	for seed := uint64(*leakFrom); seed < uint64(*leakFrom+*leakSeeds); seed++ {
		if wrong := playLeak(t, seed, nil); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

// unjudged does not judge one use of names.
type unjudged struct {
	downstream.Access

	off downstream.Use
}

func (u unjudged) Allows(use downstream.Use, typeURL, name string) bool {
	return use == u.off || u.Access.Allows(use, typeURL, name)
}

// With a check taken out the property fails. The checks of what is told of members and versions are
// taken out in package delivery.
func TestAccessLeakShows_ACC3(t *testing.T) {
	for name, without := range map[string]func(downstream.Access) downstream.Access{
		"subscriptions": func(a downstream.Access) downstream.Access { return blind{a} },
		"content":       func(a downstream.Access) downstream.Access { return unjudged{a, delivery.Content} },
		"aliases":       func(a downstream.Access) downstream.Access { return unjudged{a, delivery.Alias} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				if wrong := playLeak(t, seed, without); wrong != "" {
					t.Logf("seed %d: %.400s", seed, wrong)
					return
				}
			}
			t.Error("no schedule shows that the check is missing")
		})
	}
}
