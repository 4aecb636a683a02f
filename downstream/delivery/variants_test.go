package delivery

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// What the server and clients say of variants in a few words.
var locator, variantResource, constraintsOf, encode = words.Locator, words.Variant, words.Constraints, words.Encode

func variantResponse(typeURL string, words ...string) *wire.Response {
	r := &wire.Response{TypeURL: typeURL}
	for _, w := range words {
		name, constraints, ok := strings.Cut(strings.TrimSuffix(w[1:], "]"), "[")
		switch {
		case w[0] == '+':
			r.Resources = append(r.Resources, variantResource(typeURL, w[1:]))
		case w[0] == '=':
			r.Resources = append(r.Resources, variantResource(typeURL, w))
		case ok:
			r.RemovedVariants = append(r.RemovedVariants, wire.Variant{Name: name, Constraints: encode(constraintsOf(constraints))})
		default:
			r.Removed = append(r.Removed, name)
		}
	}
	return r
}

// sends applies a response with variants.
func (b *bed) sends(typeURL string, words ...string) {
	b.Helper()
	if err := b.apply(0, variantResponse(typeURL, words...)); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

// wants subscribes to names and locators.
func (p *peer) wants(typeURL string, texts ...string) {
	p.Helper()
	p.c.Update(&Change{TypeURL: typeURL, Subscribe: locators(texts)})
	p.check()
}

func (p *peer) drops(typeURL string, texts ...string) {
	p.Helper()
	p.c.Update(&Change{TypeURL: typeURL, Unsubscribe: locators(texts)})
	p.check()
}

func locators(texts []string) []cache.Name {
	var all []cache.Name
	for _, text := range texts {
		word := locator(text)
		all = append(all, cache.Name{Spelling: word, Key: wire.Respell(word, keyOf(wire.LocatedName(word)))})
	}
	return all
}

// gets collects, and tells each response in one line: "+name[constraints]@version" and
// "-name[constraints]", with constraints in their canonical form.
func (p *peer) gets() []string {
	p.Helper()
	batches, more, err := collectFrom(p.c, func(string) bool { return false }, p.size, 8)
	if err != nil || more {
		p.Fatalf("collect: %v, more %t", err, more)
	}
	p.check()
	var said []string
	for _, batch := range batches {
		r := new(discovery.DeltaDiscoveryResponse)
		if err := proto.Unmarshal(batch.Body.Finish(batch.TypeURL, "", "").Bytes(), r); err != nil {
			p.Fatal(err)
		}
		var words []string
		for _, res := range r.GetResources() {
			word := "+" + nameWithConstraints(res.GetName(), res.GetResourceName()) + "@" + res.GetVersion()
			if res.GetTtl() != nil {
				word += "~" + res.GetTtl().AsDuration().String()
			}
			words = append(words, word)
		}
		for _, name := range r.GetRemovedResources() {
			words = append(words, "-"+name)
		}
		for _, name := range r.GetRemovedResourceNames() {
			words = append(words, "-"+nameWithConstraints("", name))
		}
		for _, e := range r.GetResourceErrors() {
			words = append(words, "!"+e.GetResourceName().GetName()+":"+codes.Code(e.GetErrorDetail().GetCode()).String())
		}
		slices.Sort(words)
		said = append(said, strings.Join(words, " "))
	}
	return said
}

func nameWithConstraints(name string, n *discovery.ResourceName) string {
	if n != nil {
		name = n.GetName()
	}
	c, err := keyer.ParseConstraints([]byte(encode(n.GetDynamicParameterConstraints())))
	if err != nil {
		panic(err)
	}
	if c == nil {
		return name
	}
	return name + "[" + strings.ReplaceAll(c.Key(), `"`, "") + "]"
}

func TestDYN1Variants(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(b *bed)
	}{
		{"DYN-1 each subscription gets the variant that matches, with its constraints", func(b *bed) {
			prod, test, plain := b.join(), b.join(), b.join()
			prod.wants(cds, "x{env=prod version=v1}")
			test.wants(cds, "x{env=test}")
			plain.wants(cds, "x")
			b.expect(b.connect(0), "CDS +"+locator("x{env=prod version=v1}")+" +"+locator("x{env=test}")+" +x")
			b.sends(cds, "+x[env=prod]@1", "+x[env=test]@1", "+x[!env]@1")
			b.expect(prod.gets(), "+x[env=prod]@1")
			b.expect(test.gets(), "+x[env=test]@1")
			b.expect(plain.gets(), "+x[not(env)]@1")
			b.sends(cds, "+x[env=test]@2")
			b.expect(prod.gets())
			b.expect(test.gets(), "+x[env=test]@2")
		}},
		{"DYN-1 one variant by others: one update, in one response", func(b *bed) {
			leaf, relay := b.join(), b.join()
			leaf.wants(cds, "x{env=prod version=v1}")
			relay.wants(cds, "x{env=prod version=v1}", "x{env=prod version=v2}")
			b.connect(0)
			b.sends(cds, "+x[env=prod]@1")
			b.expect(leaf.gets(), "+x[env=prod]@1")
			b.expect(relay.gets(), "+x[env=prod]@1")
			b.sends(cds, "-x[env=prod]", "+x[env=prod,version=v1]@2", "+x[env=prod,version=v2]@2")
			b.expect(leaf.gets(), "+x[and(env=prod,version=v1)]@2 -x[env=prod]")
			b.expect(relay.gets(), "+x[and(env=prod,version=v1)]@2 +x[and(env=prod,version=v2)]@2 -x[env=prod]")
		}},
		{"DYN-1 and back to one", func(b *bed) {
			relay := b.join()
			relay.wants(cds, "x{v=1}", "x{v=2}")
			b.connect(0)
			b.sends(cds, "+x[v=1]@1", "+x[v=2]@1")
			b.expect(relay.gets(), "+x[v=1]@1 +x[v=2]@1")
			b.sends(cds, "-x[v=1]", "-x[v=2]", "+x@2")
			b.expect(relay.gets(), "+x@2 -x[v=1] -x[v=2]")
			b.sends(cds, "-x", "+x[v=1]@3", "+x[!v=1]@3")
			b.expect(relay.gets(), "+x[not(v=1)]@3 +x[v=1]@3 -x")
		}},
		{"DYN-1 a variant without constraints is for everybody", func(b *bed) {
			c := b.join()
			c.wants(cds, "x", "x{env=prod}", "x{env=test}")
			b.connect(0)
			b.sends(cds, "+x@1")
			b.expect(c.gets(), "+x@1")
			b.sends(cds, "-x")
			b.expect(c.gets(), "-x")
		}},
		{"DYN-1 a removed variant", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{env=prod}", "x{env=test}")
			b.connect(0)
			b.sends(cds, "+x[env=prod]@1", "+x[env=test]@1")
			c.gets()
			b.sends(cds, "-x[env=prod]")
			b.expect(c.gets(), "-x[env=prod]")
		}},
		{"DYN-1 no variant for some parameters", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{env=prod}", "x{env=qa}")
			b.connect(0)
			b.sends(cds, "+x[env=prod]@1")
			b.sends(cds, "-x")
			b.expect(c.gets(), "+x[env=prod]@1 -x")
			b.sends(cds, "+x[env=qa]@2")
			b.expect(c.gets(), "+x[env=qa]@2")
		}},
		{"DYN-1 SUB-10 a new subscription is served from the cache, and subscribed to", func(b *bed) {
			first, second := b.join(), b.join()
			first.wants(cds, "x{env=prod}")
			b.connect(0)
			b.sends(cds, "+x[env=prod]@1")
			second.wants(cds, "x{env=prod version=v1}")
			b.expect(second.gets(), "+x[env=prod]@1")
			b.expect(b.demand(0), "CDS +"+locator("x{env=prod version=v1}"))
			second.wants(cds, "x{env=prod}")
			b.expect(b.demand(0))
		}},
		{"DYN-1 SUB-13 variants for nobody are not kept", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{env=prod}")
			b.connect(0)
			b.sends(cds, "+x[env=prod]@1", "+x[env=test]@1")
			b.expect(c.gets(), "+x[env=prod]@1")
			if n := b.cache.Resources(); n != 1 || b.seen.unsolicited != 1 {
				b.Fatalf("%d resources, %d unsolicited", n, b.seen.unsolicited)
			}
			c.leave()
			b.letGo()
			b.demand(0)
			if n := b.cache.Resources(); n != 0 || b.upkeep(cds, cache.ByName).Variants != 0 {
				b.Fatalf("%d resources are left", n)
			}
		}},
		{"DYN-1 ambiguity is told, and the least constraints win, whatever the order", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{env=prod version=v1}")
			b.connect(0)
			b.sends(cds, "+x[version=v1]@1")
			b.sends(cds, "+x[env=prod]@1")
			b.expect(c.gets(), "+x[env=prod]@1")
			b.sends(cds, "+x[version=v1]@2")
			b.expect(c.gets())
			if len(b.seen.ambiguous) != 2 {
				b.Fatalf("ambiguous: %q", b.seen.ambiguous)
			}
			b.sends(cds, "-x[env=prod]")
			b.expect(c.gets(), "+x[version=v1]@2 -x[env=prod]")
		}},
		{"DYN-1 RES-12 variants are not presented, and what a new stream does not say stays", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{env=prod}", "x{env=test}", "y")
			b.connect(0)
			b.sends(cds, "+x[env=prod]@1", "+x[env=test]@1", "+y@1")
			c.gets()
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "CDS +"+locator("x{env=prod}")+" +"+locator("x{env=test}")+" +y =y@1")
			b.sends(cds, "+x[env=prod]@1")
			b.settle()
			b.expect(c.gets())
			b.sends(cds, "+x[!env=prod]@2")
			b.expect(c.gets(), "+x[not(env=prod)]@2 -x[env=test]")
			if len(b.seen.ambiguous) > 0 {
				b.Fatal("what was not confirmed is ambiguous")
			}
		}},
		{"DYN-1 a member of the wildcard is what no parameters match", func(b *bed) {
			c := b.join()
			c.wants(cds, "*")
			b.connect(0)
			b.sends(cds, "+x[!env]@1", "+x[env=prod]@1", "+y@1")
			b.expect(c.gets(), "+x[not(env)]@1 +y@1")
			b.sends(cds, "-x[!env]", "+x[!version]@2")
			b.expect(c.gets(), "+x[not(version)]@2 -x[not(env)]")
			b.sends(cds, "-x[!version]")
			b.expect(c.gets(), "-x -x[not(version)]")
		}},
		{"DYN-1 to who asks without parameters a variant takes another one's place without a word", func(b *bed) {
			c := b.join()
			c.wants(cds, "*")
			b.connect(0)
			b.sends(cds, "+x@1")
			b.expect(c.gets(), "+x@1")
			b.sends(cds, "+x[!env]@2")
			b.expect(c.gets(), "+x[not(env)]@2")
			b.sends(cds, "-x[!env]", "+x@3")
			b.expect(c.gets(), "+x@3 -x[not(env)]")
			if len(b.seen.ambiguous) > 0 {
				b.Fatal("what was replaced is ambiguous")
			}
			b.sends(cds, "-x")
			b.expect(c.gets(), "-x")
		}},
		{"DYN-1 NAME-4 xdstp names keep the client's spelling", func(b *bed) {
			c := b.join()
			name := "xdstp://a/" + strings.TrimPrefix(cds, "type.googleapis.com/") + "/x"
			c.wants(cds, name+"?b=1&a=2{env=prod}")
			b.connect(0)
			b.sends(cds, "+"+name+"?a=2&b=1[env=prod]@1")
			b.expect(c.gets(), "+"+name+"?b=1&a=2[env=prod]@1")
		}},
		{"DYN-1 RES-4 one variant for two subscriptions is sent once, and removed with the last", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{v=1 w=1}", "x{v=1 w=2}")
			b.connect(0)
			b.sends(cds, "+x[v=1]@1")
			b.expect(c.gets(), "+x[v=1]@1")
			c.drops(cds, "x{v=1 w=1}")
			b.expect(c.gets())
			b.sends(cds, "-x[v=1]")
			b.expect(c.gets(), "-x[v=1]")
		}},
		{"DYN-1 what a subscription leaves behind is removed when another one is sent something else", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{v=1}")
			b.connect(0)
			b.sends(cds, "+x@1")
			b.expect(c.gets(), "+x@1")
			c.wants(cds, "x")
			b.demand(0)
			b.sends(cds, "-x", "+x[v=1]@2", "+x[!v]@2")
			c.drops(cds, "x{v=1}")
			b.expect(c.gets(), "+x[not(v)]@2 -x")
		}},
		{"DYN-1 what a subscription leaves behind is removed if another one was sent something else", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{v=1}", "x{v=1 w=1}")
			b.connect(0)
			b.sends(cds, "+x[v=1]@1")
			b.expect(c.gets(), "+x[v=1]@1")
			b.sends(cds, "-x[v=1]", "+x[w=1]@2", "+x[!w]@2")
			if batches, more, err := collectFrom(c.c, func(string) bool { return false }, 1, 1); len(batches) != 1 || !more || err != nil {
				b.Fatalf("%d responses, more %t, %v", len(batches), more, err)
			}
			c.drops(cds, "x{v=1 w=1}") // which was not told that it is something else now
			b.expect(c.gets(), "-x[v=1]")
			b.expect(c.gets())
		}},
		{"DYN-1 ERR-1 an error is for those whom nothing else serves", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{env=prod}", "x{env=qa}")
			b.connect(0)
			b.sends(cds, "+x[env=prod]@1")
			r := variantResponse(cds)
			r.Errors = []wire.ResourceError{{Name: "x", Code: codes.NotFound, Message: "no such env"}}
			if err := b.apply(0, r); err != nil {
				b.Fatal(err)
			}
			b.expect(c.gets(), "!x:NotFound +x[env=prod]@1 -x")
		}},
		{"DYN-1 ERR-1 an error with constraints drops that variant", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{env=prod}", "x{env=qa}")
			b.connect(0)
			b.sends(cds, "+x[env=prod]@1", "+x[env=qa]@1")
			c.gets()
			r := new(wire.Response)
			if err := r.Decode([]byte(encode(&discovery.DeltaDiscoveryResponse{
				TypeUrl: cds, ResourceErrors: []*discovery.ResourceError{{
					ResourceName: &discovery.ResourceName{Name: "x", DynamicParameterConstraints: constraintsOf("env=qa")},
					ErrorDetail:  &status.Status{Code: int32(codes.PermissionDenied)},
				}},
			}))); err != nil {
				b.Fatal(err)
			}
			if err := b.apply(0, r); err != nil {
				b.Fatal(err)
			}
			b.expect(c.gets(), "!x:PermissionDenied -x[env=qa]")
		}},
		{"DYN-1 TTL-5 what is not kept reaches those who match it", func(b *bed) {
			c, late := b.join(), b.join()
			c.wants(cds, "x{env=prod}")
			b.connect(0)
			b.sends(cds, "+x[env=prod]@1!")
			b.expect(c.gets(), "+x[env=prod]@1")
			late.wants(cds, "x{env=prod version=v1}")
			b.expect(late.gets())
			b.sends(cds, "-x[env=prod]", "+x[!env=test]@2")
			b.expect(c.gets(), "+x[not(env=test)]@2 -x[env=prod]")
			b.expect(late.gets(), "+x[not(env=test)]@2")
		}},
		{"DYN-1 ACK-6 a variant that occurs twice", func(b *bed) {
			err := b.apply(0, variantResponse(cds, "+x[a=1,b=2]@1", "+x[b=2,a=1]@1"))
			if err == nil || !strings.Contains(err.Error(), "occurs twice") {
				b.Fatalf("got %v", err)
			}
		}},
		{"DYN-1 ACK-6 bad constraints", func(b *bed) {
			c := b.join()
			c.wants(cds, "x{env=prod}")
			b.connect(0)
			r := variantResponse(cds, "+x[env=prod]@1")
			r.RemovedVariants = []wire.Variant{{Name: "y", Constraints: "\x0a\x03\x0a\x01a"}}
			if err := b.apply(0, r); err == nil || err.Error() != `resource "y": a dynamic parameter constraint that says neither value nor exists` {
				b.Fatalf("got %v", err)
			}
			b.expect(c.gets(), "+x[env=prod]@1")
		}},
		{"DYN-1 a name that begins like a locator", func(b *bed) {
			if err := b.apply(0, variantResponse(cds, "+\x00a=1\x00x@1")); err == nil || !strings.Contains(err.Error(), "begins with a NUL") {
				b.Fatalf("got %v", err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newBed(t, cache.Limits{})) })
	}
}

func TestDYN1VariantTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, late := b.joinAs(Form{TTL: true}), b.joinAs(Form{TTL: true})
		c.wants(cds, "x{env=prod}", "x{env=test}")
		b.connect(0)
		b.sends(cds, "+x[env=prod]@1~10s", "+x[env=test]@1")
		b.expect(c.gets(), "+x[env=prod]@1~10s +x[env=test]@1")
		<-time.After(4 * time.Second) // in the bubble
		late.wants(cds, "x{env=prod version=v1}")
		b.expect(late.gets(), "+x[env=prod]@1~6s")
		b.sends(cds, "=x[env=prod]@1~10s")
		b.expect(c.gets(), "+x[env=prod]@1~10s") // a heartbeat could not say which variant
		b.expect(late.gets(), "+x[env=prod]@1~10s")
		<-time.After(11 * time.Second)
		b.store.Session().Settle(time.Now())
		b.check()
	})
}

func TestDYN1StateSource(t *testing.T) {
	apply := func(b *bed, typeURL, version string, words ...string) {
		b.Helper()
		err := b.store.Session().Apply(streamOf(0), &wire.Response{State: true,
			TypeURL: typeURL, Version: version, Resources: variantResponse(typeURL, words...).Resources,
		}, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		b.check()
	}
	source := cache.Source{Quiet: quiet, State: true, FullState: map[string]bool{cds: true}}
	t.Run("DYN-1 RES-8 what a complete list does not hold is gone", func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, source)
		c := b.join()
		c.wants(cds, "x{env=prod}", "x{env=test}")
		b.connect(0)
		apply(b, cds, "1", "+x[env=prod]@1", "+x[env=test]@1")
		b.expect(c.gets(), "+x[env=prod]@1 +x[env=test]@1")
		apply(b, cds, "2", "+x[!env=test]@2")
		b.expect(c.gets(), "+x[not(env=test)]@2 -x[env=prod] -x[env=test]")
	})
	t.Run("DYN-1 RES-8 TTL-3 a list that holds a variant without content leaves it", func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, source)
		c := b.join()
		c.wants(cds, "x{env=prod}", "x{env=test}")
		b.connect(0)
		apply(b, cds, "1", "+x[env=prod]@1", "+x[env=test]@1")
		c.gets()
		apply(b, cds, "2", "=x[env=prod]@2", "+x[env=test]@1", "=x[env=new]@2")
		b.expect(c.gets())
		apply(b, cds, "3", "+x[env=test]@1")
		b.expect(c.gets(), "-x[env=prod]")
	})
	t.Run("DYN-1 RES-8 elsewhere what came last goes before", func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, source)
		c := b.join()
		c.wants(rds, "x{env=prod}", "x{env=test}")
		b.connect(0)
		apply(b, rds, "1", "+x[!qa]@1")
		b.expect(c.gets(), "+x[not(qa)]@1")
		apply(b, rds, "2", "+x[env=test]@2")
		b.expect(c.gets(), "+x[env=test]@2")
		apply(b, rds, "3", "+x[env=prod]@3")
		b.expect(c.gets(), "+x[env=prod]@3 -x[not(qa)]")
		if len(b.seen.ambiguous) > 0 {
			t.Fatalf("ambiguous: %q", b.seen.ambiguous)
		}
	})
}

func TestDYN1StateClients(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.joinAs(Form{State: true, Wrapped: true})
	c.wants(cds, "x{env=prod}", "x{env=test}", "y")
	b.connect(0)
	b.sends(cds, "+x[env=prod]@1", "+x[env=test]@1", "+y@1")
	list := func() []string {
		batches, _ := collectStates([]*Place{c.c}, func(string) bool { return false }, 1<<20, 8)
		b.check()
		got := make(map[string]bool)
		for _, batch := range batches {
			r := new(discovery.DiscoveryResponse)
			if err := proto.Unmarshal(batch.Body.Finish(batch.TypeURL, "", "").Bytes(), r); err != nil {
				t.Fatal(err)
			}
			for _, packed := range r.GetResources() {
				res := new(discovery.Resource)
				if err := packed.UnmarshalTo(res); err != nil {
					t.Fatal(err)
				}
				got[nameWithConstraints(res.GetName(), res.GetResourceName())+"@"+res.GetVersion()] = true
			}
		}
		return slices.Sorted(maps.Keys(got))
	}
	b.expect(list(), "x[env=prod]@1", "x[env=test]@1", "y@1")
	b.sends(cds, "-x[env=prod]", "-x[env=test]", "+x[!env=qa]@2")
	b.expect(list(), "x[not(env=qa)]@2", "y@1")
	s := TakeSnapshot([]*Place{c.c}, cds)
	if len(s.Resources) != 2 {
		t.Fatalf("a snapshot of %d resources", len(s.Resources))
	}
}

// An incremental server that sends a variant without content, and in another version than the relay has, has it no
// more (DYN-1, TTL-3).
func TestDYN1BareVariant_TTL3(t *testing.T) {
	b, c := newBed(t, cache.Limits{}).subscribed(cds)
	c.wants(cds, "x{env=prod}", "x{env=test}")
	b.demand(0)
	b.sends(cds, "+x[env=prod]@1", "+x[env=test]@1")
	c.gets()
	b.sends(cds, "=x[env=prod]@1")
	b.expect(c.gets())
	b.sends(cds, "=x[env=prod]@2")
	b.expect(c.gets(), "-x[env=prod]")
}
