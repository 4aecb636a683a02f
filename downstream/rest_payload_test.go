package downstream

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/protobuf/types/known/anypb"
)

func clusterOf(tb testing.TB, name string) *wire.Resource {
	tb.Helper()
	packed, err := anypb.New(&clusterv3.Cluster{Name: name})
	if err != nil {
		tb.Fatal(err)
	}
	r, err := wire.NewResource(&discovery.Resource{Name: name, Version: "1", Resource: packed})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// Payloads are made once, and what was not used for longest goes first.
func TestPayloads(t *testing.T) {
	one := clusterOf(t, "one")
	c := newPayloads(1 << 20)
	first := c.of(one)
	if first.err != nil || first.transcoded == nil || c.bytes != one.Size()+first.transcoded.Size() {
		t.Fatalf("%+v, %d bytes", first, c.bytes)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if c.of(one) != first {
				t.Error("made twice")
			}
		})
	}
	wg.Wait()
	if !first.log() || first.log() {
		t.Error("is not told of once")
	}

	size := c.bytes
	c = newPayloads(3 * size)
	var all []*wire.Resource
	for i := range 3 {
		all = append(all, clusterOf(t, fmt.Sprintf("%03d", i)))
		c.of(all[i])
	}
	used := c.of(all[0])
	c.of(clusterOf(t, "003"))
	if c.bytes != 3*size || c.lru.Len() != 3 || c.of(all[0]) != used {
		t.Errorf("%d bytes of %d in %d payloads", c.bytes, 3*size, c.lru.Len())
	}
	if c.lru.Contains(all[1]) || !c.lru.Contains(all[2]) {
		t.Error("not the one went that was not used for longest")
	}

	c = newPayloads(1)
	if p := c.of(one); p.transcoded == nil || c.bytes != 0 || c.lru.Len() != 0 {
		t.Errorf("what is larger than the limit: %+v, %d bytes kept", p, c.bytes)
	}
	broken := resourceOf(clusterType, "broken", "1")
	bad, err := wire.NewResource(broken)
	if err != nil {
		t.Fatal(err)
	}
	c = newPayloads(1 << 20)
	if p := c.of(bad); p.err == nil || c.of(bad) != p || c.bytes != bad.Size() {
		t.Errorf("what cannot be written: %+v", p)
	}
}

// BenchmarkPoll is what a poll costs that is answered with 100 clusters, with the
// payloads at hand and without, and one that is answered with 304.
func BenchmarkPoll(b *testing.B) {
	s := newRESTServer(b, func(c *Config, _ *httptest.Server) { c.RESTWait = 0 })
	s.Start()
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("cluster-%03d", i)
	}
	s.ready(names...)
	current := fmt.Sprintf(`{"version_info":%q}`, s.version(b))
	for _, bb := range []struct {
		name, body  string
		limit, want int
	}{
		{"kept", `{}`, maxPayloadBytes, http.StatusOK},
		{"made", `{}`, 0, http.StatusOK},
		{"unchanged", current, 0, http.StatusNotModified},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s.server.polling.payloads = newPayloads(bb.limit)
			handler := s.server.REST()
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodPost, clusterPath, strings.NewReader(bb.body)))
				if w.Code != bb.want {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}

// Payloads go when nobody has polled for a while, and not before (LIM-3).
func TestPayloadsOfNobody_LIM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPayloads(1 << 20)
		one := clusterOf(t, "one")
		kept := func() (bytes, payloads int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.bytes, c.lru.Len()
		}
		for range 3 {
			c.enter()
			c.enter()
			c.of(one)
			c.leave()
			<-time.After(2 * payloadsRest)
			if bytes, _ := kept(); bytes == 0 {
				t.Error("LIM-3: a payload went while there is a poll")
			}
			c.leave()
			<-time.After(payloadsRest / 2)
			c.enter()
			<-time.After(payloadsRest)
			if bytes, _ := kept(); bytes == 0 {
				t.Error("LIM-3: a payload went though the client polled again")
			}
			c.leave()
			<-time.After(payloadsRest + 1)
			if bytes, n := kept(); bytes != 0 || n != 0 {
				t.Errorf("LIM-3: %d bytes in %d payloads are left", bytes, n)
			}
		}
	})
}
