package wire

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

func TestBuilder(t *testing.T) {
	p := fullResponse()
	var r Response
	if err := r.Decode(encoded.Bytes(p)); err != nil {
		t.Fatal(err)
	}
	var b Builder
	// Twice: a builder is ready again after Finish, and nothing is left in it.
	for range 2 {
		for _, res := range r.Resources {
			b.Add(res)
		}
		for _, name := range r.Removed {
			b.Remove(name)
		}
		for _, e := range r.Errors {
			b.AddError(e, e.Name)
		}
		if b.Resources() != 3 || b.Removed() != 3 || b.Errors() != 1 {
			t.Errorf("%d resources, %d removed, %d errors", b.Resources(), b.Removed(), b.Errors())
		}
		size := b.Size()
		m := b.Finish(r.TypeURL, r.Version, r.Nonce)
		var empty Builder
		header := empty.Finish(r.TypeURL, r.Version, r.Nonce).Len()
		if m.Len() != size+header {
			t.Errorf("Len = %d, but Size was %d and the header is %d", m.Len(), size, header)
		}
		want := proto.CloneOf(p)
		want.ControlPlane, want.RemovedResourceNames, want.RemovedResources = nil, nil, r.Removed
		for i, res := range want.Resources {
			want.Resources[i] = passed(res)
		}
		equal(t, want, parse(t, m))
		if b.Resources() != 0 || b.Removed() != 0 || b.Errors() != 0 || b.Size() != 0 {
			t.Errorf("not empty after Finish: %+v", b)
		}
	}
}

func TestBuilderEmpty(t *testing.T) {
	var b Builder
	if m := b.Finish("", "", ""); m.Len() != 0 || len(m.Bytes()) != 0 || len(m.gather) != 0 {
		t.Errorf("got %+v", m)
	}
	// A header of no bytes in front of a shared piece.
	b.Add(newResource(t, fullResource()))
	if m := b.Finish("", "", ""); len(m.gather) != 1 {
		t.Errorf("%d pieces", len(m.gather))
	}
}

func TestNAME4_addAs(t *testing.T) {
	named := &discoveryv3.ResourceName{Name: "n", DynamicParameterConstraints: fullResource().GetResourceName().GetDynamicParameterConstraints()}
	long := fmt.Sprintf("xdstp://authority/envoy.config.cluster.v3.Cluster/%0200d?a=b", 1)
	for name, p := range map[string]*discoveryv3.Resource{
		"name":                   {Name: "n", Version: "v", Resource: payload(1000)},
		"small":                  {Name: "n", Version: "v", Resource: payload(10)},
		"all fields":             fullResource(),
		"both forms":             {Name: "n", ResourceName: named, Version: "v", Resource: payload(1000)},
		"both forms, small":      {Name: "n", ResourceName: &discoveryv3.ResourceName{Name: "n"}, Version: "v"},
		"newer form":             {ResourceName: named, Version: "v", Resource: payload(1000)},
		"newer form, name only":  {ResourceName: &discoveryv3.ResourceName{Name: "n"}, Version: "v", Resource: payload(1000)},
		"no name at all":         {Version: "v", Resource: payload(1000)},
		"newer form, but empty":  {ResourceName: &discoveryv3.ResourceName{}, Version: "v", Resource: payload(1000)},
		"no version, no payload": {Name: "n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResource(t, p)
			for _, as := range []string{"m", "n", r.Name, long} {
				if as == "" {
					continue
				}
				var b Builder
				b.AddAs(r, as)
				size := b.Size()
				m := b.Finish(clusterType, "", "1")
				got := parse(t, m).Resources[0]
				equal(t, passed(renamed(p, as)), got)
				if want := sizeBytesField(len(encoded.Bytes(got))); size != want {
					t.Errorf("Size = %d, want %d", size, want)
				}
			}
		})
	}
}

// A server may set both forms of the name although it should not, and to
// different names. Under its own spelling a resource goes out as it came.
func TestNAME4_addAsOwnNameIsAdd(t *testing.T) {
	p := &discoveryv3.Resource{Name: "n", ResourceName: &discoveryv3.ResourceName{Name: "m"}, Version: "v"}
	r := newResource(t, p)
	for _, as := range []string{"n", ""} {
		var b Builder
		b.AddAs(r, as)
		equal(t, p, parse(t, b.Finish(clusterType, "", "1")).Resources[0])
	}
}

func TestNAME4_addAsSharesTheRest(t *testing.T) {
	r := newResource(t, &discoveryv3.Resource{Name: "n", Version: "v", Resource: payload(4096)})
	var b Builder
	b.AddAs(r, "other")
	m := b.Finish(clusterType, "", "1")
	if len(m.gather) != 2 {
		t.Fatalf("%d pieces, want the header with the name, and the rest", len(m.gather))
	}
	if tail := m.gather[1].ReadOnlyData(); &tail[len(tail)-1] != &r.framed[len(r.framed)-1] {
		t.Error("the payload was copied")
	}
}

func TestNAME4_addErrorAs(t *testing.T) {
	named := fullResource().GetResourceName()
	detail := &statuspb.Status{Code: int32(codes.PermissionDenied), Message: "not yours"}
	for name, p := range map[string]*discoveryv3.ResourceError{
		"name":        {ResourceName: &discoveryv3.ResourceName{Name: "n"}, ErrorDetail: detail},
		"constraints": {ResourceName: named, ErrorDetail: detail},
		"no detail":   {ResourceName: &discoveryv3.ResourceName{Name: "n"}},
		"no name":     {ResourceName: &discoveryv3.ResourceName{}, ErrorDetail: detail},
	} {
		t.Run(name, func(t *testing.T) {
			p.ProtoReflect().SetUnknown([]byte("\x52\x03new"))
			var r Response
			if err := r.Decode(encoded.Bytes(&discoveryv3.DeltaDiscoveryResponse{ResourceErrors: []*discoveryv3.ResourceError{p}})); err != nil {
				t.Fatal(err)
			}
			for _, as := range []string{r.Errors[0].Name, "other"} {
				var b Builder
				b.AddError(r.Errors[0], as)
				want := proto.CloneOf(p)
				want.ResourceName.Name = as
				equal(t, want, parse(t, b.Finish("T", "", "1")).ResourceErrors[0])
			}
		})
	}
}

func TestAddErrorOfOurOwn(t *testing.T) {
	for _, e := range []ResourceError{
		{Name: "n", Code: codes.Unavailable, Message: "no such authority"},
		{Name: "n"},
	} {
		var b Builder
		b.AddError(e, "m")
		want := &discoveryv3.ResourceError{
			ResourceName: &discoveryv3.ResourceName{Name: "m"},
			ErrorDetail:  &statuspb.Status{Code: int32(e.Code), Message: e.Message},
		}
		equal(t, want, parse(t, b.Finish("T", "", "1")).ResourceErrors[0])
	}
}

// Large resources are never copied; small ones, between them, are.
func TestBuilderGather(t *testing.T) {
	small := newResource(t, &discoveryv3.Resource{Name: "s", Version: "v", Resource: payload(10)})
	large := newResource(t, &discoveryv3.Resource{Name: "l", Version: "v", Resource: payload(1000)})
	for _, c := range []struct {
		adds   string // s, l: small and large; S, L: under another name
		pieces int
	}{
		{"", 1}, {"s", 1}, {"l", 2}, {"L", 2}, {"sss", 1}, {"lll", 4}, {"lsl", 4}, {"slsl", 4},
		{"lLl", 5}, {"LLL", 6}, {"lsSL", 4}, {"lsls", 5}, {"sSlLsSlL", 8},
	} {
		t.Run(c.adds, func(t *testing.T) {
			var b Builder
			for _, a := range c.adds {
				switch a {
				case 's':
					b.Add(small)
				case 'S':
					b.AddAs(small, "S")
				case 'l':
					b.Add(large)
				case 'L':
					b.AddAs(large, "L")
				}
			}
			b.Remove("gone") // goes to the front
			m := b.Finish(clusterType, "v", "1")
			if len(m.gather) != c.pieces {
				t.Errorf("%d pieces, want %d", len(m.gather), c.pieces)
			}
			if c.pieces > len(m.gather0) && cap(m.gather) != c.pieces {
				t.Errorf("room for %d pieces, %d used", cap(m.gather), c.pieces)
			}
			var names []byte
			for _, r := range parse(t, m).Resources {
				names = append(names, r.Name...)
			}
			if string(names) != c.adds {
				t.Errorf("resources %s, want %s", names, c.adds)
			}
			for _, piece := range m.gather {
				if d := piece.ReadOnlyData(); len(d) >= 1000 && !bytes.Contains(large.framed, d) {
					t.Error("a large piece of the response's own")
				}
			}
		})
	}
}

// What grpc does with a gather list: counts, references and frees it, and
// reads it through a Reader, on several streams at once.
func TestMessageIsShared(t *testing.T) {
	r := newResource(t, fullResource())
	var b Builder
	b.Add(r)
	b.AddAs(r, "other")
	m := b.Finish(clusterType, "v", "1")
	want := m.Bytes()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			data, err := Codec().Marshal(m)
			if err != nil {
				t.Error(err)
				return
			}
			defer data.Free()
			reader := data.Reader()
			defer func() { _ = reader.Close() }()
			got, err := mem.ReadAll(reader, mem.DefaultBufferPool())
			if err != nil || !bytes.Equal(got.Materialize(), want) {
				t.Errorf("read %d bytes, %v; want %d", got.Len(), err, len(want))
			}
		})
	}
	wg.Wait()
	if !bytes.Equal(m.Bytes(), want) {
		t.Error("sending changed the message")
	}
}

func TestBuilderAllocations(t *testing.T) {
	r := newResource(t, &discoveryv3.Resource{Name: "n", Version: "v", Resource: payload(1000)})
	var b Builder
	for name, c := range map[string]struct {
		build func()
		want  float64
	}{
		// The message, and the bytes of its own.
		"one":            {func() { b.Add(r) }, 2},
		"one as another": {func() { b.AddAs(r, "m") }, 2},
		"one removed":    {func() { b.Remove("n") }, 2},
		// And the gather list, and its pieces.
		"ten as others": {func() {
			for range 10 {
				b.AddAs(r, "m")
			}
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			got := testing.AllocsPerRun(100, func() {
				c.build()
				b.Finish(clusterType, "version", "1")
			})
			if got > c.want {
				t.Errorf("%v allocations, want at most %v", got, c.want)
			}
		})
	}
}

func TestBuilderLetsGo(t *testing.T) {
	r := newResource(t, fullResource())
	var b Builder
	b.Add(r)
	b.Finish(clusterType, "", "1")
	if kept := b.additions[:1]; kept[0].res != nil {
		t.Error("the builder still holds a resource")
	}
	for range 10 * keepCap {
		b.Add(r)
	}
	b.Finish(clusterType, "", "2")
	if cap(b.additions) > keepCap {
		t.Errorf("the builder keeps room for %d resources", cap(b.additions))
	}
}
