package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
)

// variantClient subscribes to clusters with dynamic parameters, over ADS in either form
// or by polling, and holds what it is told.
type variantClient struct {
	form     string // delta, sotw, rest
	locators []*discovery.ResourceLocator

	mu    sync.Mutex
	holds map[string]string // by name and constraints: the version
	gaps  []string          // responses that left it with nothing though it had something
}

// locate makes a locator: "x env=prod version=v1".
func locate(text string) *discovery.ResourceLocator {
	name, rest, _ := strings.Cut(text, " ")
	return &discovery.ResourceLocator{Name: name, DynamicParameters: parameters(rest)}
}

func variantID(n *discovery.ResourceName) string {
	var words []string
	for _, c := range n.GetDynamicParameterConstraints().GetAndConstraints().GetConstraints() {
		words = append(words, c.GetConstraint().GetKey()+"="+c.GetConstraint().GetValue())
	}
	return n.GetName() + "[" + strings.Join(words, ",") + "]"
}

func startVariantClient(t *testing.T, form string, r *testRelay, locators ...string) *variantClient {
	t.Helper()
	c := &variantClient{form: form, holds: make(map[string]string)}
	for _, text := range locators {
		c.locators = append(c.locators, locate(text))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	t.Cleanup(func() { cancel(); done.Wait() })
	if form == "rest" {
		done.Go(func() { c.poll(ctx, r.rest) })
		return c
	}
	conn, err := grpc.NewClient(r.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); done.Wait(); _ = conn.Close() })
	ads := discovery.NewAggregatedDiscoveryServiceClient(conn)
	node := &corev3.Node{Id: "client"}
	if form == "delta" {
		g, err := ads.DeltaAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Send(&discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: clusterType, ResourceLocatorsSubscribe: c.locators}); err != nil {
			t.Fatal(err)
		}
		done.Go(func() {
			for {
				r, err := g.Recv()
				if err != nil {
					return
				}
				c.delta(r)
				_ = g.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: clusterType, ResponseNonce: r.GetNonce()})
			}
		})
		return c
	}
	g, err := ads.StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Send(&discovery.DiscoveryRequest{Node: node, TypeUrl: clusterType, ResourceLocators: c.locators}); err != nil {
		t.Fatal(err)
	}
	done.Go(func() {
		for {
			r, err := g.Recv()
			if err != nil {
				return
			}
			c.state(r)
			_ = g.Send(&discovery.DiscoveryRequest{
				TypeUrl: clusterType, ResourceLocators: c.locators, ResponseNonce: r.GetNonce(), VersionInfo: r.GetVersionInfo(),
			})
		}
	})
	return c
}

func (c *variantClient) delta(r *discovery.DeltaDiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range r.GetRemovedResources() {
		delete(c.holds, name+"[]")
	}
	for _, name := range r.GetRemovedResourceNames() {
		delete(c.holds, variantID(name))
	}
	for _, res := range r.GetResources() {
		c.take(res)
	}
	c.settled(fmt.Sprint(r))
}

func (c *variantClient) take(res *discovery.Resource) {
	name := res.GetResourceName()
	if name == nil {
		name = &discovery.ResourceName{Name: res.GetName()}
	}
	c.holds[variantID(name)] = res.GetVersion()
}

func (c *variantClient) settled(response string) {
	if len(c.holds) != len(c.locators) {
		c.gaps = append(c.gaps, response)
	}
}

func (c *variantClient) state(r *discovery.DiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.holds)
	for _, packed := range r.GetResources() {
		res := new(discovery.Resource)
		if err := packed.UnmarshalTo(res); err != nil {
			panic(err)
		}
		c.take(res)
	}
	c.settled(fmt.Sprint(r))
}

// poll polls until ctx ends.
func (c *variantClient) poll(ctx context.Context, addr string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	version, nonce := "", ""
	for ctx.Err() == nil {
		body, err := protojson.Marshal(&discovery.DiscoveryRequest{
			Node: &corev3.Node{Id: "client"}, ResourceLocators: c.locators, VersionInfo: version, ResponseNonce: nonce,
		})
		if err != nil {
			panic(err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v3/discovery:clusters", bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		r := new(discovery.DiscoveryResponse)
		if err != nil || resp.StatusCode != http.StatusOK || protojson.Unmarshal(text, r) != nil {
			continue
		}
		version, nonce = r.GetVersionInfo(), r.GetNonce()
		c.state(r)
	}
}

// await waits until the client holds exactly these: "x[env=prod]@1".
func (c *variantClient) await(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	has := func() []string {
		c.mu.Lock()
		defer c.mu.Unlock()
		var got []string
		for id, version := range c.holds {
			got = append(got, id+"@"+version)
		}
		slices.Sort(got)
		return got
	}
	waitFor(t, fmt.Sprintf("a client of %v to hold %v", c.locators, want), func() bool { return slices.Equal(has(), want) })
}

// TestDynamicParameters plays the proposal's transition, from variants by env to
// variants by env and version, through one relay and through two.
func TestDynamicParameters_DYN1_SUB10_VAR7(t *testing.T) {
	apiTypes := map[string]config.APIType{
		"delta": config.AggregatedDeltaGRPC, "sotw": config.AggregatedGRPC, "rest": config.REST,
	}
	for _, tiers := range []string{"delta", "sotw", "delta,delta", "sotw,delta", "delta,sotw", "sotw,sotw", "delta,rest"} {
		for _, form := range []string{"delta", "sotw", "rest"} {
			t.Run(fmt.Sprintf("%s to %s", tiers, form), func(t *testing.T) {
				p := newVariantPlane(t)
				p.set("x", mustBe("env=prod"), mustBe("env=test"))
				r, addr := (*testRelay)(nil), p.addr
				var relays []*testRelay
				for tier := range strings.SplitSeq(tiers, ",") {
					if tier == "rest" {
						addr = r.rest
					}
					r = startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = apiTypes[tier] }, addr)
					relays, addr = append(relays, r), r.addr
				}
				one := startVariantClient(t, form, r, "x env=prod version=v1")
				two := startVariantClient(t, form, r, "x env=prod version=v2")
				other := startVariantClient(t, form, r, "x env=test version=v1")
				one.await(t, "x[env=prod]@1")
				two.await(t, "x[env=prod]@1")
				other.await(t, "x[env=test]@1")
				p.set("x", mustBe("env=prod version=v1"), mustBe("env=prod version=v2"), mustBe("env=test"))
				one.await(t, "x[env=prod,version=v1]@2")
				two.await(t, "x[env=prod,version=v2]@2")
				other.await(t, "x[env=test]@2")
				for _, c := range []*variantClient{one, two, other} {
					c.mu.Lock()
					if len(c.gaps) > 0 {
						t.Errorf("%v: %q", c.locators, c.gaps)
					}
					c.mu.Unlock()
				}
				late := startVariantClient(t, form, r, "x env=prod version=v1")
				late.await(t, "x[env=prod,version=v1]@2")
				p.set("x")
				for _, c := range []*variantClient{one, two, other, late} {
					c.await(t)
				}
				for _, r := range relays {
					r.consistent(t)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				slices.Sort(p.asked)
				// Between two polls nobody wants a name that has no variant of its own. If all are
				// such names, the stream ends with them, until the next poll.
				polled := form == "rest" || strings.Contains(tiers, "rest")
				if polled {
					p.asked = slices.Compact(p.asked)
				}
				want := []string{key(locate("x env=prod version=v1")), key(locate("x env=prod version=v2")), key(locate("x env=test version=v1"))}
				if !polled && p.opened != 1 || !slices.Equal(p.asked, want) {
					t.Errorf("%d streams, asked for %q", p.opened, p.asked)
				}
			})
		}
	}
}

// A client that uses two sets of parameters for one name, as a relay does, gets both
// variants, and one that the relay cannot serve is told so.
func TestDynamicParametersOfOneClient_DYN1_OPS5(t *testing.T) {
	p := newVariantPlane(t)
	p.set("x", mustBe("env=prod"), mustBe("env=test"))
	r := startRelay(t, nil, p.addr)
	both := startVariantClient(t, "delta", r, "x env=prod", "x env=test")
	both.await(t, "x[env=prod]@1", "x[env=test]@1")
	p.set("x", mustBe("env=prod"))
	both.await(t, "x[env=prod]@2")

	code, body := r.get(t, "/resources?name=x")
	var shown []struct {
		Name       string            `json:"name"`
		State      string            `json:"state"`
		Parameters map[string]string `json:"dynamic_parameters"`
	}
	if err := json.Unmarshal([]byte(body), &shown); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	states := make(map[string]string)
	for _, s := range shown {
		states[s.Name+" "+s.Parameters["env"]] = s.State
	}
	if want := map[string]string{"x prod": "present", "x test": "absent"}; !maps.Equal(states, want) {
		t.Errorf("the admin port shows %v, want %v", states, want)
	}
}

// Files cannot know parameters; the constraints in their wrapped resources count.
func TestDynamicParametersOfFiles_DYN1_VAR6(t *testing.T) {
	p := &variantPlane{version: 1}
	f := newFolder(t)
	write := func(variants ...planeVariant) {
		resp := &discovery.DiscoveryResponse{TypeUrl: clusterType}
		for i, v := range variants {
			v.version = p.version + i
			packed, err := anypb.New(p.resource("x", v))
			if err != nil {
				t.Fatal(err)
			}
			resp.Resources = append(resp.Resources, packed)
		}
		text, err := protojson.Marshal(resp)
		if err != nil {
			t.Fatal(err)
		}
		f.put("cds.json", string(text))
	}
	write(mustBe("env=prod"), mustBe("env=test"))
	r := startRelay(t, fromFiles(f))
	c := startVariantClient(t, "delta", r, "x env=prod", "x env=test")
	c.await(t, "x[env=prod]@1", "x[env=test]@2")
	p.version = 5
	write(mustBe("env=prod"))
	c.await(t, "x[env=prod]@5")
}
