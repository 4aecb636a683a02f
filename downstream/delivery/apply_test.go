package delivery

import (
	"errors"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/protobuf/types/known/anypb"
)

// bare is a resource without payload.
func bare(t *testing.T, name, version string) *wire.Resource {
	t.Helper()
	r, err := wire.NewResource(&discovery.Resource{Name: name, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRejected(t *testing.T) {
	redirect, err := wire.NewResource(&discovery.Resource{Name: "a", Version: "r", Resource: &anypb.Any{TypeUrl: wire.RedirectTypeURL}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		r      *wire.Response
		reason string // "" if it is accepted
		partly bool
		client []string // what a client with a, b and the glob is told
	}{
		{name: "ACK-6 accepted", r: response(cds, "+a@2", "-b"), client: []string{"CDS +a@2 -b"}},
		{name: "ACK-6 a name twice", r: response(cds, "+a@2", "+b@2", "+a@3"), reason: `"a" occurs twice`},
		{name: "ACK-6 two spellings of one name", r: response(cds, "+"+nameQ+"@2", "+"+nameQ2+"@2"), reason: "occurs twice"},
		{name: "ACK-6 sent and removed", r: response(cds, "+a@2", "-a"), reason: `"a" occurs twice`},
		{name: "ACK-6 removed twice", r: response(cds, "-b", "-b"), reason: `"b" occurs twice`},
		{
			name: "ACK-6 a payload of another type", r: &wire.Response{TypeURL: cds, Resources: []*wire.Resource{
				resource(cds, "a@2"), resource(lds, "b@2"),
			}}, reason: "is of type",
		},
		{
			name: "LOC-1 a redirect stands in for a resource of any type",
			r:    &wire.Response{TypeURL: cds, Resources: []*wire.Resource{redirect}}, client: []string{"CDS +a@r"},
		},
		{
			name: "ACK-6 NAME-1 a bad name, the others are applied", r: response(cds, "+xdstp://x%/bad@1", "+a@2", "-b"),
			reason: "xdstp://x%/bad", partly: true, client: []string{"CDS +a@2 -b"},
		},
		{
			name: "ACK-6 NAME-1 a bad name removed, the others are applied", r: response(cds, "-xdstp://x%/bad", "+a@2"),
			reason: "xdstp://x%/bad", partly: true, client: []string{"CDS +a@2"},
		},
		{name: "NAME-9 a name that is empty", r: response(cds, "+@1", "+a@2"), client: []string{"CDS +a@2"}},
		{name: "ACK-6 NAME-9 two without a name", r: response(cds, "+@1", "+@2"), reason: "must be wrapped"},
		{
			name:   "ACK-6 ERR-1 an error for a bad name",
			r:      &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{{Name: "xdstp://x%/bad"}, {Name: "a", Code: notFound}}},
			reason: "xdstp://x%/bad", partly: true, client: []string{"CDS -a !a"},
		},
		{name: "ACK-6 nothing in it", r: response(cds)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b", globQ)
			b.says(cds, "+a@1", "+b@1", "+"+nameQ+"@1")
			c.collect()
			err := b.apply(0, tc.r)
			rejected, ok := errors.AsType[*cache.RejectedError](err)
			switch {
			case tc.reason == "" && err != nil:
				t.Fatalf("rejected: %v", err)
			case tc.reason != "" && (!ok || !strings.Contains(err.Error(), tc.reason) || rejected.Partly != tc.partly):
				t.Fatalf("got %#v", err)
			}
			b.expect(c.collect(), tc.client...)
		})
	}
}

func TestApply(t *testing.T) {
	t.Run("RES-1 only what changed goes out", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
		b.says(lds, "+a@1", "+b@1")
		b.expect(c.collect(), "LDS +a@1 +b@1")
		b.says(lds, "+a@1", "+b@2")
		b.expect(c.collect(), "LDS +b@2")
		c.rang()
		b.says(lds, "+a@1", "+b@2")
		if c.rang() {
			t.Fatal("woken for nothing")
		}
		b.expect(c.collect())
	})
	t.Run("SUB-13 what was not asked for is counted, neither cached nor relayed", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.says(cds, "+a@1", "+b@1", "-c")
		b.says(lds, "+l@1")
		b.saysOn(1, cds, "+a@2")
		b.expect(c.collect(), "CDS +a@1")
		if b.seen.unsolicited != 3 || b.cache.Resources() != 1 {
			t.Fatalf("%d unsolicited, %d held", b.seen.unsolicited, b.cache.Resources())
		}
		c.sub(cds, "b")
		b.expect(c.collect())
	})
	t.Run("SUB-9 what does not exist is remembered: when it appears, every subscriber gets it", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		one, other := b.join(), b.join()
		one.sub(cds, "a")
		other.sub(cds, "a")
		b.connect(0)
		b.says(cds, "-a")
		b.expect(one.collect(), "CDS -a")
		b.expect(other.collect(), "CDS -a")
		b.says(cds, "+a@1")
		b.expect(one.collect(), "CDS +a@1")
		b.expect(other.collect(), "CDS +a@1")
	})
	t.Run("RES-6 absence is answered at once, RES-5 under the name that was subscribed", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		one, other := b.join(), b.join()
		one.sub(cds, nameQ2)
		b.connect(0)
		b.says(cds, "-"+nameQ)
		b.expect(one.collect(), "CDS -"+nameQ2)
		other.sub(cds, nameQ)
		b.expect(other.collect(), "CDS -"+nameQ)
	})
	t.Run("RES-16 without payload: a heartbeat if the version is the one held", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.says(cds, "+a@1")
		c.collect()
		if err := b.apply(0, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{bare(t, "a", "1")}}); err != nil {
			t.Fatal(err)
		}
		b.expect(c.collect())
	})
	t.Run("RES-16 without payload: word that it does not exist if not", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b")
		b.says(cds, "+a@1")
		c.collect()
		r := &wire.Response{TypeURL: cds, Resources: []*wire.Resource{bare(t, "a", ""), bare(t, "b", "")}}
		if err := b.apply(0, r); err != nil {
			t.Fatal(err)
		}
		b.expect(c.collect(), "CDS -b -a") // what was never held first
	})
	// A server that takes "*" for a name says that it does not exist.
	t.Run("SUB-1 that * does not exist means nothing", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
		b.says(lds, "+a@1")
		c.collect()
		b.says(lds, "-*")
		b.expect(c.collect())
		if b.cache.Resources() != 1 {
			t.Fatal("the wildcard was emptied")
		}
	})
	t.Run("ERR-1 NOT_FOUND drops the resource and is told to those who know errors and those who do not", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, late := b.join(), b.join()
		c.sub(cds, "a")
		b.connect(0)
		b.says(cds, "+a@1")
		c.collect()
		b.fails(cds, "a", notFound)
		b.expect(c.collect(), "CDS -a !a")
		late.sub(cds, "a")
		b.expect(late.collect(), "CDS -a !a")
		if b.cache.Resources() != 0 || b.infoOf(cds, "a").Error != "NotFound: why" {
			t.Fatalf("held: %+v", b.infoOf(cds, "a"))
		}
	})
	t.Run("ERR-1 UNAVAILABLE keeps what is held", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b")
		b.says(cds, "+a@1")
		c.collect()
		b.fails(cds, "a", unavailable)
		b.expect(c.collect(), "CDS !a")
		b.fails(cds, "b", unavailable)
		b.expect(c.collect(), "CDS !b")
		b.says(cds, "+b@1")
		b.expect(c.collect(), "CDS +b@1")
	})
	t.Run("ERR-1 an error that is repeated is told once", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.fails(cds, "a", unavailable)
		b.expect(c.collect(), "CDS !a")
		b.fails(cds, "a", unavailable)
		b.expect(c.collect())
		b.fails(cds, "a", notFound)
		b.expect(c.collect(), "CDS -a !a")
	})
	t.Run("ERR-1 an error of what nobody asked for is nobody's", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.fails(cds, "b", notFound)
		b.expect(c.collect())
	})
	t.Run("ERR-1 the error is under the client's spelling, one per response", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, nameQ2)
		b.fails(cds, nameQ, unavailable)
		b.expect(c.collect(), "CDS !"+nameQ2)
	})
	t.Run("OPS-1 the age of what goes out is that of its oldest change", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b")
		first, second := time.Unix(100, 0), time.Unix(200, 0)
		for at, words := range map[time.Time][]string{first: {"+a@1"}, second: {"+b@1"}} {
			if err := b.store.Session().Apply(wire.StreamID{}, response(cds, words...), at); err != nil {
				t.Fatal(err)
			}
		}
		c.collect()
		if got := c.took[0].Received; !got.Equal(first) {
			t.Fatalf("received %v", got)
		}
		c.sub(cds, "a")
		c.collect()
		if got := c.took[0].Received; !got.IsZero() {
			t.Fatalf("an answer from the cache has the age %v", got)
		}
	})
	// 10,000 clients must not be looked at once for each of 10,000 members.
	t.Run("GLOB-2 followers are woken once per response", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
		b.says(lds, many("+", "m", 0, 100, "@1")...)
		if !c.rang() || c.rang() {
			t.Fatal("not woken once")
		}
	})
}

// NAME-9: the empty string is a name, with all that names have.
func TestApply_NAME9(t *testing.T) {
	t.Run("NAME-9 by name and in the wildcard, beside opaque names and globs", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		named, all, list := b.join(), b.join(), b.joinAs(bareForm)
		all.sub(cds, "*", globQ)
		named.sub(cds, "", "a")
		list.sub(cds, "*", "", "a")
		b.connect(0)
		b.connect(1)
		b.saysOn(1, cds, "+@1", "+a@1")
		b.says(cds, "+@1", "+a@1", "+b@1")
		b.settle()
		b.expect(named.collect(), "CDS +@1 +a@1")
		b.expect(all.collect(), "CDS -"+globQ, "CDS +@1 +a@1 +b@1")
		b.expect(list.lists(), "CDS 1 a1 b1")
		b.saysOn(1, cds, "-")
		b.says(cds, "-")
		b.expect(named.collect(), "CDS -")
		b.expect(all.collect(), "CDS -")
		b.expect(list.lists(), "CDS a1 b1")
		b.failsOn(1, cds, "", notFound)
		b.expect(named.collect(), "CDS - !")
	})
	t.Run("NAME-9 ERR-1 an error without a name is that of the wildcard where that is subscribed to", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "*")
		b.fails(cds, "", unavailable)
		b.expect(c.collect(), "CDS !*")
	})
}

// A response of which nothing can be used does not answer anything.
func TestApply_NAME9_ACK6_RES2_rejectedOnly(t *testing.T) {
	for _, tc := range []struct {
		name  string
		apply func(b *bed) error
	}{
		{"NAME-9 ACK-6 incremental", func(b *bed) error { return b.apply(0, response(cds, "+xdstp://x%/bad@1")) }},
		{"NAME-9 ACK-6 incremental, a removal", func(b *bed) error { return b.apply(0, response(cds, "-xdstp://x%/bad")) }},
		{"NAME-9 ACK-6 two without a name", func(b *bed) error { return b.apply(0, response(cds, "+@1", "+@2")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			b.connect(0)
			if err := tc.apply(b); err == nil {
				t.Fatal("not rejected")
			}
			b.settle()
			b.expect(p.lists())
			b.says(cds, "+a@1")
			b.settle()
			b.expect(p.lists(), "CDS a1")
		})
	}
}
