package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// noted is a client that notes what every response changes.
type noted struct {
	*xdsclient.Client

	variant variant

	mu      sync.Mutex
	changes []notedChange
}

// notedChange is what one response said of one name.
type notedChange struct {
	at            time.Time
	kind          xdsclient.Kind
	typeURL, name string // as they were on the wire
	version       string
	payload       string              // "" without one
	failure       *wire.ResourceError // nil without one
}

// startNoted runs a client of a variant that takes resources wrapped, in the state of
// the world too: only there have they a name of their own. It begins when the caller
// subscribes to something.
func startNoted(t testing.TB, v variant, relay *testRelay, node string) *noted {
	t.Helper()
	n := &noted{variant: v}
	options := xdsclient.Options{
		Form: v.form(), Node: &corev3.Node{Id: node}, PerType: v.perType, ResourceInSotW: v.sotw, KeepResources: true,
		OnResponse: n.note, PollInterval: pollInterval,
	}
	var release func()
	if v.rest {
		transport := new(http.Transport)
		release = transport.CloseIdleConnections
		options.HTTP, options.URL = &http.Client{Transport: transport}, "http://"+relay.rest
	} else {
		conn := dial(t, relay.addr)
		release = func() { _ = conn.Close() }
		options.Conn = conn
	}
	n.Client = xdsclient.New(options)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("client %s: %v", node, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		release()
	})
	return n
}

func (n *noted) note(r *xdsclient.Response) error {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ch := range r.Changes {
		c := notedChange{at: now, kind: ch.Kind, typeURL: r.TypeURL, name: ch.Name, version: ch.Version, failure: ch.Error}
		if ch.Resource != nil {
			c.payload = encoded.Payload(ch.Resource.Any())
		}
		n.changes = append(n.changes, c)
	}
	return nil
}

// since copies the changes from the one with this number on.
func (n *noted) since(first int) []notedChange {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.changes[first:])
}

// seen is how many changes there were.
func (n *noted) seen() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.changes)
}

// last gives the last change of a name.
func (n *noted) last(name string) (notedChange, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range slices.Backward(n.changes) {
		if c.name == name {
			return c, true
		}
	}
	return notedChange{}, false
}

// await waits until cond holds, looking again after every response.
func (n *noted) await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.Wait(ctx, func(*xdsclient.Client) bool { return cond() }); err != nil {
		t.Fatalf("%s: never happened; the client noted %s", what, n.story())
	}
}

// awaitContent waits until what is held under a name is this payload.
func (n *noted) awaitContent(t testing.TB, what, typeURL, name, payload string) {
	t.Helper()
	n.await(t, what, func() bool { return n.content(typeURL, name) == payload })
}

// content is the payload that is held under a name, "" for nothing.
func (n *noted) content(typeURL, name string) string {
	h, held := n.Get(typeURL, name)
	if !held {
		return ""
	}
	return encoded.Payload(h.Resource.Any())
}

// payloadType is the type of the payload that is held under a name.
func (n *noted) payloadType(typeURL, name string) string {
	h, held := n.Get(typeURL, name)
	if !held {
		return ""
	}
	return h.Resource.TypeURL()
}

// told lists what was said of names, in order.
func (n *noted) told() []string {
	var all []string
	for _, c := range n.since(0) {
		all = append(all, c.kind.String()+" "+c.name)
	}
	return all
}

// story tells what happened.
func (n *noted) story() string {
	lines := []string{"this:"}
	for _, c := range n.since(0) {
		line := fmt.Sprintf("%s %s %q", c.kind, c.name, c.version)
		if c.failure != nil {
			line += fmt.Sprintf(" %s: %s", c.failure.Code, c.failure.Message)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
