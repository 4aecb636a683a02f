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

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	testplane "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

var leakFrom = flag.Int("leak.from", 0, "the first of the schedules of leak.seeds")

var leakSeeds = flag.Int("leak.seeds", 20, "random schedules of the property of access rules in a whole relay")

const (
	edsType      = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	clustersList = "type.googleapis.com/envoy.config.cluster.v3.ClusterCollection"
	clusterNames = "xdstp://a/envoy.config.cluster.v3.Cluster/"
	secretType   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	// formerType is the type of secrets in v2: rules are about both.
	formerType = "example.org/envoy.api.v2.auth.Secret"
	listNames  = "xdstp://a/envoy.config.cluster.v3.ClusterCollection/"
)

// leak is one random schedule: a relay with access rules, a control plane with the resources of
// several tenants, and clients of all forms.
type leak struct {
	*bubbled

	random  *rand.Rand
	plane   *testplane.Plane
	issuers *leakIssuers
	forms   []leakForm // that clients may be of
	wishes  []leakWish // that clients may have
	config  *config.Config
	rules   *rules.Access
	sides   map[string]*bufconn.Listener // by listener
	people  []*leakClient
	number  int
	tenants []string
	answers map[string]string // of denied names, by form and rule
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// adopt has the judge go by access rules.
func (x *leak) adopt(a config.Access) {
	x.Helper()
	c := rules.AccessConfig{Allow: a.Otherwise == config.Allow, Types: map[string]bool{secretType: true}}
	for _, r := range a.Rules {
		c.Rules = append(c.Rules, rules.AccessRule{Name: r.Name, Match: r.Match, Allow: r.Effect == config.Allow, Secrets: r.Secrets})
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
	c.subject = x.rules.Subject(c.node, c.who.Peer)
	if c.form.kind == polling { // what it was told was by the rules before, and the next answer may wait
		c.told = make(map[string]*leakAnswer)
	}
}

// join brings a client.
func (x *leak) join() {
	tenant := pick(x.random, x.tenants)
	c := &leakClient{
		T: x.T, form: pick(x.random, x.forms), listener: pick(x.random, []string{keyer.DefaultListener, "side"}),
		subs: make(map[string]map[string]bool), held: make(map[string]map[string]string), shown: make(map[string]map[string]bool),
		told: make(map[string]*leakAnswer), versions: make(map[string]string), presented: make(map[string]bool), listed: make(map[string]bool),
	}
	if c.at = x.sides[c.listener]; c.form.kind == polling {
		c.listener, c.at = keyer.DefaultListener, x.rest
	}
	c.exist = map[string][]string{
		clusterType: slices.Concat(x.universe(clusterType), x.named("x")),
		edsType:     x.universe(edsType), secretType: x.universe(secretType), formerType: x.universe(formerType), clustersList: x.universe(clustersList),
	}
	c.node = &corev3.Node{Id: fmt.Sprintf("%s-%d", tenant, len(x.people)), Cluster: tenant, ClientFeatures: c.form.features()}
	if x.random.IntN(3) > 0 { // rules that look at it fail for the others
		c.node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"tenant": structpb.NewStringValue(tenant)}}
	}
	c.who = x.issuers.peer(c.listener, x.identity(c.listener, tenant))
	x.judge(c)
	for range 2 + x.random.IntN(6) {
		typeURL, name := x.wish(c.form)
		put(c.subs, typeURL, name, true)
	}
	c.connect(nil)
	x.people = append(x.people, c)
}

// identity draws who a client is that presents the node of a tenant.
func (x *leak) identity(listener, tenant string) string {
	switch x.random.IntN(4) {
	case 0: // it lies
		return pick(x.random, x.tenants)
	case 1:
		if listener != keyer.DefaultListener {
			return ""
		}
	}
	return tenant
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
		if c.form.kind == polling {
			c.streams.poll()
		}
		c.mu.Lock()
		wrong := c.wrong
		if len(wrong) == 0 {
			wrong = x.alike(c)
		}
		c.mu.Unlock()
		if len(wrong) > 0 {
			return fmt.Sprintf("client %d (%v, %s, %s by %s): %q", i, c.form, c.node.GetId(), c.who.Identity(), c.listener, wrong)
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
	if len(guessed) > 1 && c.form.kind == changes && c.subs[clusterType]["*"] && c.allowedLocked(clusterType, "*") && !c.ended {
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
			if c.form.kind != changes && a.code == codes.OK && (c.presented[typeURL] || !c.listed[typeURL]) {
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
			case strings.Contains(name, "#entry="):
				kind = "entry"
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

// leakWithout is what is taken out of a relay, and of what clients do; the zero value is nothing.
type leakWithout struct {
	judge  func(downstream.Access) downstream.Access
	config func(*config.Config)
	forms  []leakForm // clients are of these forms only
	wishes []leakWish // clients want only these
}

// playLeak plays a schedule, and gives what went wrong.
func playLeak(t *testing.T, seed uint64, without leakWithout) (wrong string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &leak{
			random: rand.New(rand.NewPCG(seed, 2)), plane: testplane.New(testplane.Behaviour{Absent: testplane.AbsentRemoved}), answers: make(map[string]string),
			sides: map[string]*bufconn.Listener{"side": bufconn.Listen(1 << 20)}, issuers: newLeakIssuers(t), forms: without.forms, wishes: without.wishes,
		}
		if x.forms == nil {
			x.forms = leakForms()
		}
		if x.wishes == nil {
			x.wishes = leakWishes()
		}
		x.tenants = []string{"ta", "tb", "tc", "td"}[:2+x.random.IntN(3)]
		access := x.draw()
		x.bubbled = runBubbledBefore(t, x.plane, func(c *config.Config) {
			c.Access = access
			c.Server.RESTWait = config.Duration(2 * time.Second)
			c.Server.Listeners = []config.Listener{listenerAt("side", "127.0.0.1:0")}
			x.issuers.configure(t, c)
			c.Aggregation.Otherwise = config.Share
			c.Resolve.Prefetch = true
			u := &c.Upstreams[0]
			u.Keepalive.Time = 0 // nobody is idle for so long but in a bubble
			u.Authorities, u.Settle = []string{"a"}, config.Duration(100*time.Millisecond)
			if without.config != nil {
				without.config(c)
			}
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			x.config = c
		}, func(r *Relay) {
			r.router.judge = without.judge
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
		for range 80 {
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
		if wrong := playLeak(t, seed, leakWithout{}); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}
