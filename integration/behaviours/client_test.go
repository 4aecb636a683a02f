package behaviours

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// client is an xDS client that notes what it hears, and rejects nothing that can be read.
type client struct {
	*xdsclient.Client

	w     *world
	leave func() // may be called more than once

	mu   sync.Mutex
	said []string // what came: "+name", "-name", "=name" without payload
}

// dial makes a client that speaks ADS. It asks for all of a type, or for names, once.
func (w *world) dial(form xdsclient.Form, typeURL string, names ...string) *client {
	w.t.Helper()
	conn, err := xdsclient.Dial("passthrough:///"+w.addr, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	c := &client{w: w}
	c.Client = xdsclient.New(xdsclient.Options{
		Form: form, Conn: conn, Node: &corev3.Node{Id: node}, KeepResources: true, OnResponse: c.note,
	})
	c.Subscribe(typeURL, names...)
	c.come()
	return c
}

// come opens a stream, on which the client presents what it has.
func (c *client) come() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // what did not come is what a test sees
	c.leave = func() {
		cancel()
		running.Wait()
	}
	c.w.t.Cleanup(c.leave)
}

func (c *client) note(r *xdsclient.Response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range r.Changes {
		switch {
		case ch.Kind == xdsclient.Failed: // says nothing of what there is
		case ch.Resource == nil:
			c.said = append(c.said, "-"+ch.Name)
		case ch.Resource.HasPayload():
			c.said = append(c.said, "+"+ch.Name)
		default:
			c.said = append(c.said, "="+ch.Name+"|"+strings.Join(ch.Resource.Aliases(), ","))
		}
	}
	return r.Err
}

// holds reports whether the client has just these messages of a type.
func (c *client) holds(typeURL string, want map[string]proto.Message) bool {
	if c.Len(typeURL) != len(want) {
		return false
	}
	for name, m := range want {
		if h, ok := c.Get(typeURL, name); !ok || encoded.Payload(h.Resource.Any()) != string(encoded.Bytes(m)) {
			return false
		}
	}
	return true
}

// await waits until the client has just these messages of a type.
func (c *client) await(what, typeURL string, want map[string]proto.Message) {
	c.w.t.Helper()
	c.w.until(what, func() bool { return c.holds(typeURL, want) }, func() any {
		return fmt.Sprint("the client has ", c.names(typeURL), ", want ", slices.Sorted(maps.Keys(want)))
	})
}

func (c *client) names(typeURL string) []string { return slices.Sorted(maps.Keys(c.Versions(typeURL))) }

// take gives what came since it was called last, in order within a response.
func (c *client) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := c.said
	c.said = nil
	return said
}

// hears waits until just these words came, in any order.
func (c *client) hears(what string, want ...string) {
	c.w.t.Helper()
	var got []string
	slices.Sort(want)
	c.w.until(what, func() bool {
		got = append(got, c.take()...)
		slices.Sort(got)
		return slices.Equal(got, want)
	}, func() any { return fmt.Sprintf("the client heard %q, want %q", got, want) })
}

// heard waits until these words came, and gives all that came.
func (c *client) heard(what string, want ...string) []string {
	c.w.t.Helper()
	var got []string
	c.w.until(what, func() bool {
		got = append(got, c.take()...)
		return !slices.ContainsFunc(want, func(word string) bool { return !slices.Contains(got, word) })
	}, func() any { return fmt.Sprintf("the client heard %q, want %q", got, want) })
	return got
}
