package wire

import (
	"math"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

func TestTTL1_addTTL(t *testing.T) {
	for name, p := range map[string]*discoveryv3.Resource{
		"name":                                   {Name: "n", Version: "v", Resource: payload(1000)},
		"small":                                  {Name: "n", Version: "v", Resource: payload(10)},
		"all fields":                             fullResource(),
		"own ttl":                                {Name: "n", Version: "v", Resource: payload(1000), Ttl: durationpb.New(time.Hour)},
		"newer form":                             {ResourceName: &discoveryv3.ResourceName{Name: "n"}, Version: "v", Resource: payload(1000)},
		"no name at all":                         {Version: "v", Resource: payload(1000)},
		"length of two bytes because of the ttl": {Name: "n", Version: "v", Resource: payload(50)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResource(t, p)
			for _, as := range []string{r.Name, "other"} {
				for _, ttl := range []time.Duration{1, time.Millisecond, time.Second, time.Minute + 1, math.MaxInt64} {
					var b Builder
					b.AddTTL(r, as, ttl)
					size := b.Size()
					got := parse(t, b.Finish(clusterType, "", "1")).Resources[0]
					want := passed(p)
					if as != r.Name {
						want = passed(renamed(p, as))
					}
					want.Ttl = durationpb.New(ttl)
					equal(t, want, got)
					if n := sizeBytesField(len(encoded.Bytes(got))); size != n {
						t.Errorf("RES-9: Size = %d, want %d", size, n)
					}
				}
			}
		})
	}
}

func TestTTL1_addTTLSharesTheRest(t *testing.T) {
	r := newResource(t, &discoveryv3.Resource{Name: "n", Version: "v", Resource: payload(4096)})
	for _, as := range []string{"n", "other"} {
		var b Builder
		b.AddTTL(r, as, time.Minute)
		m := b.Finish(clusterType, "", "1")
		if len(m.gather) != 2 {
			t.Fatalf("%d pieces, want the header with the ttl, and the rest", len(m.gather))
		}
		if tail := m.gather[1].ReadOnlyData(); &tail[len(tail)-1] != &r.framed[len(r.framed)-1] {
			t.Error("the payload was copied")
		}
	}
}

func TestTTL3_addHeartbeat(t *testing.T) {
	for _, want := range []*discoveryv3.Resource{
		{Name: "n", Version: "v", Ttl: durationpb.New(time.Second)},
		{Name: "n", Ttl: durationpb.New(1)},
		{Name: "xdstp://authority/T/a?b=c", Version: "1", Ttl: durationpb.New(90*time.Minute + time.Millisecond)},
	} {
		var b Builder
		b.AddHeartbeat(want.Name, want.Version, want.Ttl.AsDuration())
		if b.Resources() != 1 {
			t.Errorf("counted as %d resources", b.Resources())
		}
		size := b.Size()
		got := parse(t, b.Finish(clusterType, "", "1")).Resources[0]
		equal(t, want, got)
		if n := sizeBytesField(len(encoded.Bytes(got))); size != n {
			t.Errorf("RES-9: Size = %d, want %d", size, n)
		}
		r := newResource(t, got)
		if r.HasPayload() || !r.HasTTL || r.TTL() != want.Ttl.AsDuration() || r.Version != want.Version {
			t.Errorf("RES-16: read back as %+v", r)
		}
	}
}

// A heartbeat and a ttl cost the response no memory beside that of any resource.
func TestTTL3_allocations(t *testing.T) {
	r := newResource(t, &discoveryv3.Resource{Name: "n", Version: "v", Resource: payload(4096)})
	allocs := func(add func(b *Builder)) float64 {
		var b Builder
		return testing.AllocsPerRun(100, func() {
			add(&b)
			b.Finish(clusterType, "", "1")
		})
	}
	plain := allocs(func(b *Builder) { b.Add(r) })
	for what, add := range map[string]func(b *Builder){
		"ttl":             func(b *Builder) { b.AddTTL(r, "n", time.Minute) },
		"respelled, ttl":  func(b *Builder) { b.AddTTL(r, "other", time.Minute) },
		"heartbeat":       func(b *Builder) { b.AddHeartbeat("n", "v", time.Minute) },
		"many heartbeats": func(b *Builder) { b.AddHeartbeat("n", "v", 1); b.AddHeartbeat("m", "v", 1) },
	} {
		if got := allocs(add); got > plain {
			t.Errorf("%s: %v allocations, of a plain resource %v", what, got, plain)
		}
	}
}
