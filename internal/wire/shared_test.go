package wire

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// sharedResource gives a resource with a payload of so many bytes.
func sharedResource(t *testing.T, name, version, payload string, change func(*discoveryv3.Resource)) *Resource {
	t.Helper()
	p := &discoveryv3.Resource{Name: name, Version: version, Resource: &anypb.Any{TypeUrl: "type.googleapis.com/x.T", Value: []byte(payload)}}
	if change != nil {
		change(p)
	}
	r, err := NewResource(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func lieTogether(a, b *Resource) bool {
	return unsafe.SliceData(a.framed) == unsafe.SliceData(b.framed)
}

// Equal resources lie in the same bytes, and say the same as before. Others stay where they are.
func TestShared_LIM3(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		a, b   *Resource
		shared bool
	}{
		"equal":    {sharedResource(t, "a", "1", long, nil), sharedResource(t, "a", "1", long, nil), true},
		"digest":   {sharedResource(t, "a", "", long, nil), sharedResource(t, "a", "", long, nil), true},
		"no name":  {sharedResource(t, "", "1", long, nil), sharedResource(t, "", "1", long, nil), true},
		"name":     {sharedResource(t, "a", "1", long, nil), sharedResource(t, "b", "1", long, nil), false},
		"version":  {sharedResource(t, "a", "1", long, nil), sharedResource(t, "a", "2", long, nil), false},
		"payload":  {sharedResource(t, "a", "1", long, nil), sharedResource(t, "a", "1", long+"x", nil), false},
		"too few":  {sharedResource(t, "a", "1", "x", nil), sharedResource(t, "a", "1", "x", nil), false},
		"nameless": {sharedResource(t, "", "1", long, inner), sharedResource(t, "", "1", long, inner), true},
	} {
		t.Run(name, func(t *testing.T) {
			var s Shared
			want := [3]string{strings.Clone(c.b.Name), strings.Clone(c.b.Digest()), string(c.b.Raw())}
			version, aliases := strings.Clone(c.b.Version), c.b.Aliases()
			for range 2 { // its own bytes are no others
				if s.Use(c.a) != c.a {
					t.Error("the first one is another resource")
				}
			}
			c.b = s.Use(c.b)
			if got := lieTogether(c.a, c.b); got != c.shared {
				t.Fatalf("in the same bytes: %t, want %t", got, c.shared)
			}
			if got := [3]string{c.b.Name, c.b.Digest(), string(c.b.Raw())}; got != want || c.b.Version != version || len(c.b.Aliases()) != len(aliases) {
				t.Errorf("it says %q, %q; before %q, %q", got, c.b.Version, want, version)
			}
			if c.shared && c.a.Name != "" && unsafe.StringData(c.a.Name) != unsafe.StringData(c.b.Name) {
				t.Error("the name keeps the bytes that the resource came in")
			}
			runtime.KeepAlive(c.a)
		})
	}
}

func inner(p *discoveryv3.Resource) {
	p.ResourceName = &discoveryv3.ResourceName{Name: "inner", DynamicParameterConstraints: &discoveryv3.DynamicParameterConstraints{}}
	p.Aliases = []string{"alias"}
}

// What nobody has any more is forgotten, and its table does not grow with what comes and goes.
func TestSharedForgets_LIM3(t *testing.T) {
	var s Shared
	count := func() (n int) {
		for i := range s.parts {
			n += len(s.parts[i].known)
		}
		return n
	}
	const wave = sharedParts * leastSwept
	most := 0
	for round := range 8 {
		for i := range wave {
			s.Use(sharedResource(t, fmt.Sprint(round, "-", i), "1", strings.Repeat("x", 200), nil))
		}
		most = max(most, count())
		runtime.GC()
	}
	if most > 5*wave {
		t.Errorf("%d are known after waves of %d that are gone", most, wave)
	}
	a := sharedResource(t, "a", "1", strings.Repeat("x", 200), nil)
	s.Use(a)
	runtime.GC()
	b := sharedResource(t, "a", "1", strings.Repeat("x", 200), nil)
	b = s.Use(b)
	if !lieTogether(a, b) {
		t.Error("what somebody still has was forgotten")
	}
}

// Many goroutines take and leave equal resources at once.
func TestSharedRace_LIM3(t *testing.T) {
	var s Shared
	encoded := make([][]byte, 8)
	for i := range encoded {
		encoded[i] = sharedResource(t, fmt.Sprint("r", i), "1", strings.Repeat("x", 200), nil).Raw()
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				r, err := Restore(encoded[i%len(encoded)], 0)
				if err != nil {
					t.Error(err)
					return
				}
				r = s.Use(r)
				var p discoveryv3.Resource
				if err := proto.Unmarshal(r.Raw(), &p); err != nil || p.GetName() != r.Name || r.Version != "1" {
					t.Errorf("%q %q: %v", r.Name, r.Version, err)
					return
				}
				if i%100 == 0 {
					runtime.GC()
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkShared(b *testing.B) {
	var s Shared
	r, err := NewResource(&discoveryv3.Resource{Name: "a", Version: "1", Resource: &anypb.Any{Value: make([]byte, 1<<10)}})
	if err != nil {
		b.Fatal(err)
	}
	s.Use(r)
	other, _ := Restore(r.Raw(), 0)
	b.ReportAllocs()
	for b.Loop() {
		s.Use(other)
	}
	runtime.KeepAlive(r)
}
