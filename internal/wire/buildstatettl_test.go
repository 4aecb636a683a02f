package wire

import (
	"math"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

func TestTTL1_RES13_wrapped(t *testing.T) {
	for name, p := range map[string]*discoveryv3.Resource{
		"name":       {Name: "n", Version: "v", Resource: payload(1000)},
		"small":      {Name: "n", Version: "v", Resource: payload(10)},
		"all fields": fullResource(),
		"own ttl":    {Name: "n", Resource: payload(1000), Ttl: durationpb.New(time.Hour)},
		"newer form": {ResourceName: &discoveryv3.ResourceName{Name: "n"}, Version: "v", Resource: payload(1000)},
		"lengths of two bytes because of the ttl": {Name: "n", Version: "v", Resource: payload(50)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResource(t, p)
			for _, as := range []string{r.Name, "other"} {
				for _, ttl := range []time.Duration{1, time.Millisecond, time.Second, time.Minute + 1, math.MaxInt64} {
					var b Builder
					b.AddWrappedTTL(r, as, ttl)
					size := b.Size()
					got := parseState(t, b.Finish(clusterType, "", "1")).Resources[0]
					want := passed(p)
					if as != r.Name {
						want = passed(renamed(p, as))
					}
					want.Ttl = durationpb.New(ttl)
					equal(t, want, unwrapped(t, got))
					if n := sizeBytesField(proto.Size(got)); size != n {
						t.Errorf("RES-9: Size = %d, want %d", size, n)
					}
				}
			}
		})
	}
}

// What is sent with a ttl is shared like anything else, and can be joined.
func TestTTL1_RES13_sharedAndJoined(t *testing.T) {
	r := newResource(t, &discoveryv3.Resource{Name: "n", Version: "v", Resource: payload(4096)})
	for _, as := range []string{"n", "other"} {
		var b, part Builder
		part.AddWrappedTTL(r, as, time.Minute)
		b.Join(&part)
		m := b.Finish(clusterType, "", "1")
		if len(m.gather) != 2 {
			t.Fatalf("%d pieces, want the header with the ttl, and the rest", len(m.gather))
		}
		if tail := m.gather[1].ReadOnlyData(); &tail[len(tail)-1] != &r.framed[len(r.framed)-1] {
			t.Error("the payload was copied")
		}
		if got := unwrapped(t, parseState(t, m).Resources[0]); got.Name != as || got.Ttl.AsDuration() != time.Minute {
			t.Errorf("joined as %q with a ttl of %v", got.Name, got.Ttl.AsDuration())
		}
	}
}

// FuzzStateBuilder is FuzzBuilder for the state of the world.
func FuzzStateBuilder(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(checkStateBuilder))
}

func TestStateBuilderModel_RES13_TTL1(t *testing.T) { rapid.Check(t, checkStateBuilder) }

func checkStateBuilder(t *rapid.T) {
	var b Builder
	for range rapid.IntRange(1, 3).Draw(t, "responses") {
		want := &discoveryv3.DiscoveryResponse{}
		for range rapid.IntRange(0, 8).Draw(t, "parts") {
			ttl := time.Duration(rapid.Int64Min(1).Draw(t, "ttl"))
			p := drawResource(t)
			p.Name += "n" // an Any without value, which is shorter, stands for no Resource
			r, err := NewResource(p)
			if err != nil {
				t.Fatal(err)
			}
			switch rapid.IntRange(0, 2).Draw(t, "form") {
			case 0:
				b.AddAny(r)
				if p.Resource != nil {
					want.Resources = append(want.Resources, p.Resource)
				}
				continue
			case 1:
				ttl = 0
				b.AddWrapped(r, r.Name)
			case 2:
				b.AddWrappedTTL(r, r.Name, ttl)
			}
			out := passed(p)
			if ttl > 0 {
				out.Ttl = durationpb.New(ttl)
			}
			want.Resources = append(want.Resources, wrapping(out))
		}
		if b.Size() != proto.Size(want) {
			t.Fatalf("Size = %d, want %d", b.Size(), proto.Size(want))
		}
		want.TypeUrl, want.VersionInfo, want.Nonce = clusterType, rapid.String().Draw(t, "version_info"), "1"
		var got discoveryv3.DiscoveryResponse
		m := b.Finish(want.TypeUrl, want.VersionInfo, want.Nonce)
		if err := proto.Unmarshal(m.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if m.Len() != len(m.Bytes()) || !proto.Equal(opened(t, want), opened(t, &got)) {
			t.Fatalf("got  %v\nwant %v", &got, want)
		}
	}
}

// wrapping is p in the Any that state-of-the-world responses have it in.
func wrapping(p *discoveryv3.Resource) *anypb.Any {
	b, err := proto.Marshal(p)
	if err != nil {
		panic(err)
	}
	return &anypb.Any{TypeUrl: wrapperType, Value: b}
}

// opened has what is wrapped in one order of fields, which is the encoder's choice.
func opened(t *rapid.T, r *discoveryv3.DiscoveryResponse) *discoveryv3.DiscoveryResponse {
	for _, x := range r.Resources {
		if x.TypeUrl != wrapperType {
			continue
		}
		var p discoveryv3.Resource
		if err := proto.Unmarshal(x.Value, &p); err != nil {
			t.Fatal(err)
		}
		x.Value = wrapping(&p).Value
	}
	return r
}

// A payload that is wrapped for its ttl, and the same one that comes bare since it has
// none any more, are one content (TTL-4).
func TestTTL4_RES13_wrappedAndBare(t *testing.T) {
	body, err := proto.Marshal(&discoveryv3.ResourceName{Name: "n"}) // field 1 is the name
	if err != nil {
		t.Fatal(err)
	}
	bare := &anypb.Any{TypeUrl: clusterType, Value: body}
	for _, name := range []string{"", "n"} {
		r := Response{State: true}
		wrapped := wrapping(&discoveryv3.Resource{Name: name, Resource: bare, Ttl: durationpb.New(time.Second)})
		if err := r.Decode(encoded.Bytes(&discoveryv3.DiscoveryResponse{TypeUrl: clusterType, Resources: []*anypb.Any{bare, wrapped}})); err != nil {
			t.Fatal(err)
		}
		if !r.Resources[1].HasTTL || !r.Resources[0].SameContent(r.Resources[1]) {
			t.Errorf("named %q: bare %x, wrapped %x", name, r.Resources[0].Raw(), r.Resources[1].Raw())
		}
	}
}
