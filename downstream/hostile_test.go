package downstream

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"google.golang.org/grpc/codes"
)

// A client that does not read blocks nothing but itself: its handler waits in
// Send, others are served, and what it gets in the end is the latest state.
func TestStall_OPS3(t *testing.T) {
	const updates = 500
	bubble(t, func(h *harness) {
		h.sized("0", 20, 100<<10)
		quick, deaf := h.client(), h.deafClient()
		deaf.acking = true
		quick.subscribe(clusterType)
		deaf.subscribe(clusterType)
		h.quiet()
		before := h.seen.count("sent")
		began := time.Now()
		for v := range updates {
			h.opaque.set(clusterType, fmt.Sprint(v+1), fmt.Sprintf("r%04d", v%20))
			h.quiet()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("OPS-3: %v passed until the others had everything", took)
		}
		if n := h.seen.count("sent") - before; n != updates {
			t.Errorf("OPS-3: %d responses to %d updates: the one that does not read was sent some", n, updates)
		}
		if n := len(holds(quick.take())); n != 20 {
			t.Errorf("the other client holds %d resources", n)
		}
		h.advance(time.Hour)
		deaf.read()
		deaf.take()
		want := holds(quick.all)
		got := holds(deaf.all)
		for name, v := range want {
			if got[name] != v {
				t.Errorf("OPS-3: holds %s of %q, the latest is %s", v, name, got[name])
			}
		}
		if n := len(deaf.all); n > 40 {
			t.Errorf("OPS-3: %d responses, want the merged state in few", n)
		}
	}, func(c *Config) { c.MaxMessageSize = 128 << 10 })
}

// What a client that does not read sends is not read either: neither side waits
// for the other once it reads again.
func TestFlood_OPS3_RequestsOfAClientThatDoesNotRead(t *testing.T) {
	bubble(t, func(h *harness) {
		h.sized("0", 8, 100<<10)
		c := h.deafClient()
		c.subscribe(clusterType)
		h.quiet()
		const requests = 2000
		c.reading.Go(func() {
			for i := range requests {
				c.subscribe(clusterType, fmt.Sprintf("xdstp://nobody/%d", i))
			}
		})
		h.quiet()
		if n := h.seen.count("requested"); n > 20 {
			t.Errorf("OPS-3: %d requests were taken in while nothing could be sent", n)
		}
		c.acking = true
		c.read()
		c.take()
		if n := h.seen.count("requested"); n < requests {
			t.Errorf("%d requests were taken in, want %d", n, requests)
		}
		answered := 0
		for _, r := range c.all {
			answered += len(r.RemovedResources)
		}
		if answered != requests {
			t.Errorf("%d of %d names were answered", answered, requests)
		}
	}, func(c *Config) { c.MaxMessageSize = 128 << 10 })
}

func TestHostile(t *testing.T) {
	runAll(t, []scenario{
		{"repeats wait for the ACK: what is asked for again and again is sent once", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			r := c.wants("Cluster +a=1")[0]
			for range 100 {
				c.subscribe(clusterType, "*")
			}
			c.wants()
			c.ack(r)
			c.wants("Cluster +a=1")
		}},
		{"a client that rejects everything, with every nonce", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			mark := c.wants("Cluster +a=1")[0].Nonce[:markLen]
			for i := range 100 {
				c.nack(&response{TypeUrl: clusterType, Nonce: mark + strconv.Itoa(i)}, strings.Repeat("no", 10_000))
			}
			c.wants()
			if s := h.status().Types[clusterType]; s.Nacks != 1 || len(s.LastNack.Message) > 2*logs.ReasonBytes+64 {
				h.Errorf("a response was sent once and rejected once: shown as %+v", s)
			}
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
		}},
		{"a NACK for a type that was never sent", func(h *harness) {
			c := h.slowClient()
			c.nack(&response{TypeUrl: clusterType, Nonce: strings.Repeat("9", 1<<20)}, "why not")
			c.wants("Cluster")
			if s := h.status().Types[clusterType]; s.Nacks != 0 || s.LastNack != nil {
				h.Errorf("nothing was sent that could be rejected: shown as %+v", s)
			}
		}},
		{"subscribing and unsubscribing the same name in one request", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.send(&request{TypeUrl: clusterType, ResourceNamesSubscribe: []string{"a"}, ResourceNamesUnsubscribe: []string{"a"}})
			c.wants()
			if n := h.status().Types[clusterType].Subscriptions; n != 0 {
				h.Errorf("%d subscriptions are left", n)
			}
		}},
		{"a client that half-closes is answered, and its stream ends well", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.client().subscribe(clusterType, "a")
			h.quiet()
			c := h.client()
			c.subscribe(clusterType, "a")
			_ = c.stream.CloseSend()
			c.wants("Cluster +a=1")
			if h.seen.closed[codes.OK] != 1 {
				h.Errorf("streams ended with %v", h.seen.closed)
			}
		}},
		{"a client that goes away leaves nothing behind", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType, "*", "a", ofA("x"), ofA("d/*"))
			c.take()
			c.cancel()
			c.take()
			if len(h.server.Clients(nil, nil)) != 0 || h.opaque.store.Clients() != 0 || h.a.store.Clients() != 0 || h.router.open != 0 {
				h.Error("something is left of a stream that ended")
			}
			if h.seen.closed[codes.Canceled] != 1 {
				h.Errorf("streams ended with %v, want Canceled", h.seen.closed)
			}
			h.opaque.set(clusterType, "2", "a")
		}},
		{"a stream without a request", func(h *harness) {
			c := h.client()
			h.advance(time.Hour)
			c.wants()
			if s := h.status(); len(s.Types) != 0 || s.Node != "" {
				h.Errorf("shown as %+v", s)
			}
		}},
	})
}

// A client that goes away while its handler is blocked in Send, and a request of
// its waits to be taken, ends its stream as canceled.
func TestHostile_GoneWhileBlocked(t *testing.T) {
	bubble(t, func(h *harness) {
		h.sized("0", 8, 100<<10)
		c := h.deafClient()
		c.subscribe(clusterType)
		h.quiet()
		c.subscribe(clusterType, "a")
		h.quiet()
		c.cancel()
		h.quiet()
		if h.seen.closed[codes.Canceled] != 1 || len(h.server.Clients(nil, nil)) != 0 {
			t.Errorf("streams ended with %v", h.seen.closed)
		}
	}, func(c *Config) { c.MaxMessageSize = 128 << 10 })
}

// A client that does not acknowledge while more is removed than anybody remembers
// is sent away, and told of it all when it comes back with its versions.
func TestStall_RES11_TooFarBehind(t *testing.T) {
	bubble(t, func(h *harness) {
		var names []string
		for i := range 2000 {
			names = append(names, fmt.Sprint(i))
		}
		h.opaque.set(clusterType, "1", names...)
		c := h.slowClient()
		c.subscribe(clusterType)
		versions := holds(c.take())
		if len(versions) != len(names) {
			t.Fatalf("client holds %d resources", len(versions))
		}
		h.opaque.unset(clusterType, names[1:]...)
		h.advance(ackWait)
		c.wants()
		c.endedWith(codes.Unavailable, "too far behind")

		h.opaque.settle()
		c = h.client()
		c.send(&request{TypeUrl: clusterType, InitialResourceVersions: versions})
		removed := 0
		for _, r := range c.take() {
			removed += len(r.RemovedResources)
		}
		if removed != len(names)-1 {
			t.Errorf("RES-11: told of %d removals, want %d", removed, len(names)-1)
		}
	})
}

// What a client says is shortened for the log, and what it says at once is told in
// one line (LOC-4, ACK-7).
func TestHostile_LogIsNotFlooded(t *testing.T) {
	var log bytes.Buffer
	bubble(t, func(h *harness) {
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprintf("xdstp://nobody/envoy.config.cluster.v3.Cluster/%d%s", i, strings.Repeat("x", 5000)))
		}
		c := h.slowClient()
		c.send(&request{TypeUrl: clusterType, Node: node(strings.Repeat("n", 1<<20)), ResourceNamesSubscribe: names})
		refusals := c.take()
		for range 5 {
			c.nack(refusals[len(refusals)-1], strings.Repeat("no ", 1<<18))
			c.nack(&response{TypeUrl: clusterType, Nonce: strings.Repeat("1", 1<<18)}, strings.Repeat("no ", 1<<18))
		}
		c.take()
	}, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 {
		t.Errorf("%d lines, want one of the refusals, one of the NACK and one of the end", len(lines))
	}
	for i, part := range []string{"refused", "client rejected", "stream closed"} {
		if i < len(lines) && (!strings.Contains(lines[i], part) || len(lines[i]) > 5*maxShown+2*logs.ReasonBytes) {
			t.Errorf("a line of %d bytes: %.100s", len(lines[i]), lines[i])
		}
	}
}

// A client that rejects whatever it is sent is worth some warnings in each minute, not one
// for each rejection, and a line for all the others; it is counted and shown (ACK-7).
func TestHostile_ACK7_RejectsForEver(t *testing.T) {
	var log bytes.Buffer
	const minutes, loud, rejections = 3, 8, 16
	lines := logs.NewLimit(slog.NewTextHandler(&log, nil), loud, nil)
	bubble(t, func(h *harness) {
		h.opaque.set(clusterType, "0", "a")
		c := h.slowClient()
		c.send(&request{TypeUrl: clusterType, Node: node("n"), ResourceNamesSubscribe: []string{"*"}})
		h.opaque.pump()
		for v := range minutes * rejections {
			responses := c.take()
			if len(responses) == 0 {
				t.Fatalf("nothing to reject after %d", v)
			}
			c.nack(responses[len(responses)-1], "never")
			h.opaque.set(clusterType, fmt.Sprint(v+1), "a")
			if v%rejections == rejections-1 && v < (minutes-1)*rejections {
				h.advance(time.Minute)
			}
		}
		c.take()
		lines.Close()
		if got := h.server.Clients(nil, nil)[0].Types[clusterType].Nacks; got != minutes*rejections {
			t.Errorf("%d rejections are counted, want %d", got, minutes*rejections)
		}
	}, func(c *Config) { c.Log = slog.New(lines.Handler()) })
	if got := strings.Count(log.String(), `msg="client rejected a response"`); got != minutes*loud {
		t.Errorf("%d warnings, want %d", got, minutes*loud)
	}
	left := fmt.Sprintf(`message="client rejected a response" left_out=%d`, rejections-loud)
	if got := strings.Count(log.String(), left); got != minutes {
		t.Errorf("%d lines tell what was left out, want %d", got, minutes)
	}
}

// The admin port looks while everything moves.
func TestStreams_WhileServing(t *testing.T) {
	bubble(t, func(h *harness) {
		h.opaque.set(clusterType, "0", "a")
		for range 4 {
			c := h.client()
			c.send(&request{TypeUrl: clusterType, Node: node("n")})
		}
		done := make(chan struct{})
		looked := make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-done:
					looked <- n
					return
				default:
					n += len(h.server.Clients(nil, nil))
				}
			}
		}()
		for v := range 200 {
			h.opaque.pump()
			h.opaque.set(clusterType, fmt.Sprint(v+1), "a")
		}
		close(done)
		if <-looked == 0 {
			t.Log("the admin port never saw a stream")
		}
	})
}
