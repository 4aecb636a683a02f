package relay

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/testkit/frames"
)

// polls asks a relay as a client that polls does.
func (b *bubbled) polls() (code int) {
	b.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return b.rest.DialContext(ctx) },
	}
	answer, err := (&http.Client{Transport: transport}).Post("http://relay/v3/discovery:clusters", "application/json", strings.NewReader(`{"node":{"id":"other"}}`))
	if err != nil {
		b.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// limitedBy is how often a limit was in a client's way.
func (b *bubbled) limitedBy(registry *prometheus.Registry, limit downstream.Limit) float64 {
	b.Helper()
	families, err := registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "xdsrelay_downstream_limited_total" && m.GetLabel()[0].GetValue() == string(limit) {
				return m.GetCounter().GetValue()
			}
		}
	}
	b.Fatal("there is no such limit")
	return 0
}

// asksCheaply gives what makes a request whose headers are 50 KiB, and 30 bytes once they are compressed.
func asksCheaply(w *frames.Wire) func() error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	fields := []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "relay"}, {Name: ":path", Value: "/"}}
	fields = append(fields, slices.Repeat([]hpack.HeaderField{{Name: "x", Value: strings.Repeat("x", 3600)}}, 14)...)
	stream := uint32(1)
	return func() error {
		block.Reset()
		for _, f := range fields {
			if err := encoder.WriteField(f); err != nil {
				return err
			}
		}
		err := w.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		stream += 2
		synctest.Wait()
		return err
	}
}

// What clients send to a REST listener that no poll asks for is read slowly beyond a bound, whatever it is, and
// holds up nobody else. It is counted, also where net/http ends the connection before.
func TestFloodsOfHTTP_LIM2(t *testing.T) {
	const lasting = 10 * time.Second
	floods := frames.Idle()
	floods["unknown frames after requests whose headers were compressed"] = frames.Flood{Bytes: 9 + 16_000, Begin: func(w *frames.Wire) (func() error, error) {
		ask := asksCheaply(w)
		for range 1500 {
			if err := ask(); err != nil {
				return nil, err
			}
		}
		return func() error { return w.Framer.WriteRawFrame(0x77, 0, 0, make([]byte, 16_000)) }, nil
	}}
	floods["unknown frames between requests whose headers are compressed"] = frames.Flood{Bytes: 3 * (9 + 16_000), Begin: func(w *frames.Wire) (func() error, error) {
		ask := asksCheaply(w)
		return func() error {
			err := ask()
			for range 3 {
				err = errors.Join(err, w.Framer.WriteRawFrame(0x77, 0, 0, make([]byte, 16_000)))
			}
			return err
		}, nil
	}}
	floods["headers"] = frames.Headers(64<<10, 64<<10)
	for name, f := range floods {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				b := runBubbled(t, func(c *config.Config) { c.Server.RESTWait = 0 }, func(o *Options) { o.Registry = registry })
				pass(time.Second)
				conn, err := b.rest.DialContext(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				w, end, err := frames.Over(conn)
				if err != nil {
					t.Fatal(err)
				}
				one, err := f.Begin(w)
				if err != nil {
					t.Fatal(err)
				}
				times := 0
				stop := time.AfterFunc(lasting, w.Close)
				for ; one() == nil && times < 10_000_000; times++ {
				}
				stop.Stop()
				// What is read in the time, and what is on its way.
				if most := 1<<20 + int(lasting.Seconds())*(64<<10) + 2<<20; times*f.Bytes > most {
					t.Errorf("LIM-2: %d times %d bytes were taken, want %d at most", times, f.Bytes, most)
				}
				if code := b.polls(); code != http.StatusOK && code != http.StatusNotModified {
					t.Errorf("LIM-2: another client is answered with %d", code)
				}
				end()
				pass(time.Minute) // what is on its way is read slowly, too
				// After a request net/http may end the connection before it is slow.
				if n := b.limitedBy(registry, downstream.LimitFrames); n != 1 && (n != 0 || name != "empty frames") {
					t.Errorf("LIM-2: the flood was counted %v times", n)
				}
				if present, _ := b.relay.connections.Count(); present != 0 {
					t.Errorf("LIM-2: there are %d connections", present)
				}
			})
		})
	}
}

// By default, a poll without news ends before the client's patience does, as an Envoy without a
// request_timeout has it: one second.
func TestQuietPoll_REST1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := runBubbled(t, func(*config.Config) {})
		pass(time.Second)
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.rest.DialContext(ctx) }}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://relay/v3/discovery:endpoints",
			strings.NewReader(`{"node":{"id":"n"},"resource_names":["x"]}`))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Transport: transport, Timeout: time.Second}).Do(r)
		if err != nil {
			t.Fatalf("REST-1: %v", err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusNotModified {
			t.Errorf("REST-1: the poll ended with %d, want 304", answer.StatusCode)
		}
		synctest.Wait() // see bubbled.rest
	})
}

// Clients that poll are not slowed, however much they ask for and are sent.
func TestPollsAreNoFlood_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		b := runBubbled(t, func(c *config.Config) { c.Server.RESTWait = 0 }, func(o *Options) { o.Registry = registry })
		pass(time.Second)
		for _, two := range []bool{false, true} {
			transport := &http.Transport{
				Protocols:   new(http.Protocols),
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.rest.DialContext(ctx) },
			}
			transport.Protocols.SetHTTP1(!two)
			transport.Protocols.SetUnencryptedHTTP2(two)
			began := time.Now()
			body := `{"node":{"id":"other","metadata":{"x":"` + strings.Repeat("x", 100<<10) + `"}},"resource_names":["a"]}`
			for range 100 { // 10 MiB
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://relay/v3/discovery:clusters", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Large", strings.Repeat("x", 30<<10))
				answer, err := (&http.Client{Transport: transport}).Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
				synctest.Wait() // see bubbled.rest
			}
			transport.CloseIdleConnections()
			if took := time.Since(began); took > time.Second {
				t.Errorf("LIM-2: 100 polls took %v", took)
			}
			pass(time.Second)
		}
		if n := b.limitedBy(registry, downstream.LimitFrames); n != 0 {
			t.Errorf("LIM-2: polls were taken for a flood %v times", n)
		}
	})
}
