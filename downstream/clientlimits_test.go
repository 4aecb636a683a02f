package downstream

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/grpc/codes"
)

// limited has a server with the limits that operators have.
func limited(c *Config) {
	c.Limits = Limits{
		AckWait:   DefaultAckWait,
		PerClient: ClientLimits{FirstRequest: 10 * time.Second, RequestsPerSecond: 100, NameBytes: 2 << 10, NodeBytes: 256 << 10},
	}
}

// What a client may take is bounded, and a limit that is in its way is counted by its key.
func TestLimits_LIM1(t *testing.T) {
	for _, s := range []scenario{
		{"a stream without a request ends", func(h *harness) {
			c := h.client()
			h.advance(10*time.Second - tick)
			if n := len(h.server.Clients(nil, nil)); n != 1 {
				h.Fatalf("%d streams", n)
			}
			h.advance(tick)
			c.endedWith(codes.DeadlineExceeded, "no request")
			h.limited(LimitFirstRequest, 1)
		}},
		{"one with a request does not", func(h *harness) {
			c := h.client()
			h.advance(9 * time.Second)
			c.subscribe(clusterType, "a")
			h.advance(time.Hour)
			c.wants("Cluster -a")
			h.limited(LimitFirstRequest, 0)
		}},
		{"requests wait that come too fast", func(h *harness) {
			c := h.slowClient()
			for range 1000 {
				c.subscribe(clusterType, "a")
			}
			h.quiet()
			if n := h.seen.count("requested"); n < 1000 {
				h.Errorf("%d requests of a burst were read", n)
			}
			h.limited(LimitRequests, 0)
			c.take()
			before := h.seen.count("requested")
			for range 1000 {
				c.send(&request{TypeUrl: clusterType, ResourceNamesUnsubscribe: []string{"none"}})
			}
			h.quiet()
			h.advance(5 * time.Second)
			if n := h.seen.count("requested") - before; n < 400 || n > 600 {
				h.Errorf("%d requests were read in five seconds, want 500", n)
			}
			h.advance(10 * time.Second)
			if n := h.seen.count("requested") - before; n != 1000 {
				h.Errorf("%d requests were read in the end, want 1000", n)
			}
			if h.seen.count("limited: "+string(LimitRequests)) == 0 {
				h.Error("no wait is counted")
			}
		}},
		{"answers to responses do not wait", func(h *harness) {
			c := h.client()
			c.subscribe(clusterType, "a")
			c.wants("Cluster -a")
			began := time.Now()
			for i := range 3000 {
				h.opaque.set(clusterType, strconv.Itoa(i+1), "a")
				h.quiet()
			}
			if n := h.seen.count("acked"); n != 3001 {
				h.Errorf("%d responses are acknowledged, want 3001", n)
			}
			if d := time.Since(began); d != 0 {
				h.Errorf("the acknowledgements took %v", d)
			}
			h.limited(LimitRequests, 0)
			c.take()
			again := c.all[len(c.all)-1]
			for range 1000 { // the subscription was the first
				c.ack(again)
			}
			h.quiet()
			h.limited(LimitRequests, 1)
			h.advance(time.Second)
		}},
		{"answers that change subscriptions do", func(h *harness) {
			c := h.slowClient()
			c.subscribe(clusterType, "a")
			for i := range 1100 {
				h.opaque.set(clusterType, strconv.Itoa(i+1), "a")
				for _, r := range c.take() {
					c.send(&request{TypeUrl: clusterType, ResponseNonce: r.Nonce, ResourceNamesSubscribe: []string{"a"}})
				}
			}
			h.quiet()
			if h.seen.count("limited: "+string(LimitRequests)) == 0 {
				h.Error("no wait is counted")
			}
			h.advance(time.Minute)
		}},
		{"ABS-4 a name that is too long is refused by itself", func(h *harness) {
			c := h.client()
			long := strings.Repeat("n", 2<<10)
			h.opaque.set(clusterType, "1", "a", long)
			c.subscribe(clusterType, "a", long, long+"n")
			got := holds(c.take())
			if len(got) != 2 || got["a"] != "1" || got[long] != "1" {
				h.Errorf("the client holds %d resources", len(got))
			}
			h.limited(LimitName, 1)
			p := h.poller("/v3/discovery:clusters", long+"n").poll()
			h.advance(time.Minute)
			if p.answer.Code != http.StatusOK {
				h.Errorf("the poll's status is %d", p.answer.Code)
			}
			h.limited(LimitName, 2)
		}},
		// A response without the name would remove it from the client, and a list too.
		{"RES-7 a stream ends with a name that has no room, and removes nothing", func(h *harness) {
			h.router.byName = func(_, name string) (*cache.Store, error) {
				if name == "more" {
					return nil, fmt.Errorf("%w: for now", ErrNoRoom)
				}
				return h.opaque.store, nil
			}
			h.opaque.set(clusterType, "1", "a", "more")
			c := h.client()
			c.subscribe(clusterType, "a")
			c.wants("Cluster +a=1")
			c.subscribe(clusterType, "more")
			c.endedWith(codes.Unavailable, "too many scopes: for now")
			h.limited(LimitScopes, 1)
			s := h.state()
			s.asks(clusterType, "a", "more")
			s.endedWith(codes.Unavailable, "too many scopes: for now")
			h.limited(LimitScopes, 2)
			p := h.poller("/v3/discovery:clusters", "a", "more").poll()
			if p.answer.Code != http.StatusServiceUnavailable {
				h.Errorf("the poll's status is %d", p.answer.Code)
			}
			h.limited(LimitScopes, 3)
		}},
		{"LIM-3 it is counted as memory if that is what lacks", func(h *harness) {
			h.router.byName = func(string, string) (*cache.Store, error) { return nil, ErrNoMemory }
			c := h.client()
			c.subscribe(clusterType, "a")
			c.endedWith(codes.Unavailable, "short of memory")
			h.limited(LimitMemory, 1)
		}},
		{"ABS-2 a stream and a poll end, and may come again", func(h *harness) {
			h.router.byName = func(string, string) (*cache.Store, error) { return nil, fmt.Errorf("%w: for now", ErrNoRoom) }
			c := h.client()
			c.subscribe(clusterType, "a")
			c.endedWith(codes.Unavailable, "too many scopes: for now")
			h.limited(LimitScopes, 1)
			p := h.poller("/v3/discovery:clusters", "a").poll()
			if p.answer.Code != http.StatusServiceUnavailable || p.answer.Header().Get("Retry-After") == "" {
				h.Errorf("the poll's status is %d, with %v", p.answer.Code, p.answer.Header())
			}
			h.limited(LimitScopes, 2)
		}},
		{"a stream with a node that is too large ends", func(h *harness) {
			c := h.client()
			c.send(&request{TypeUrl: clusterType, Node: &corev3.Node{Id: strings.Repeat("n", 256<<10)}})
			c.endedWith(codes.ResourceExhausted, "the node has 262")
			h.limited(LimitNode, 1)
			p := h.poller("/v3/discovery:clusters", "a")
			p.next.Node.Id = strings.Repeat("n", 256<<10)
			if p.poll(); p.answer.Code != http.StatusRequestEntityTooLarge {
				h.Errorf("the poll's status is %d", p.answer.Code)
			}
			h.limited(LimitNode, 2)
		}},
	} {
		t.Run(s.name, func(t *testing.T) { bubble(t, s.run, limited) })
	}
}

// limited expects that a limit was in clients' way so many times.
func (h *harness) limited(l Limit, times int) {
	h.Helper()
	h.quiet()
	if got := h.seen.count("limited: " + string(l)); got != times {
		h.Errorf("%s was counted %d times, want %d", l, got, times)
	}
}
