// Package compare asks two servers as each node of a fleet, and says where their answers differ: a control plane, and a
// relay before it.
//
// It asks as an Envoy does: for all Listeners and Clusters, and then for what they refer to. Where the answers differ it
// asks once more, because a control plane may change meanwhile. It changes nothing, and the command "xdsrelay compare"
// calls it.
package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/watch"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Options say what is asked, and how.
type Options struct {
	ControlPlane, Relay watch.Transport
	APIType             watch.APIType
	Subscriptions       []watch.Subscription // where it begins
	Timeout             time.Duration        // for the answers to one node
	Parallel            int                  // nodes at a time
}

// Difference is one resource of one node.
type Difference struct {
	Node string `json:"node"`
	Type string `json:"type"` // short name, or type URL
	Name string `json:"name"`
	What string `json:"what"` // one of the constants, or what a server said
}

// What can be different.
const (
	Missing    = "missing at the relay"
	Added      = "only at the relay"
	Content    = "other content"
	Version    = "other version"
	Unanswered = "not answered by the relay"
)

// Result is what came of one node.
type Result struct {
	Node        string
	Resources   int // that the control plane has for it
	Differences []Difference
	PlaneErr    error // of the control plane, if it could not be asked
	RelayErr    error // of the relay
}

// Err has the errors of both servers.
func (r *Result) Err() error {
	return errors.Join(wrap("control plane", r.PlaneErr), wrap("relay", r.RelayErr))
}

// Nodes asks as each node, several at a time, and calls each with what came of it, one at a time.
func Nodes(ctx context.Context, nodes []*corev3.Node, o Options, each func(Result)) {
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, max(1, o.Parallel))
	for _, node := range nodes {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			r := o.node(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			each(r)
		})
	}
	running.Wait()
}

// node asks as one node, and once more if there are differences.
func (o Options) node(ctx context.Context, node *corev3.Node) (r Result) {
	r.Node = node.GetId()
	for range 2 {
		var plane, relay *view
		var asking sync.WaitGroup
		asking.Go(func() { plane, r.PlaneErr = o.ask(ctx, o.ControlPlane, node) })
		asking.Go(func() { relay, r.RelayErr = o.ask(ctx, o.Relay, node) })
		asking.Wait()
		if r.Err() != nil {
			return r
		}
		r.Resources, r.Differences = len(plane.has), differences(r.Node, plane, relay)
		if len(r.Differences) == 0 {
			return r
		}
	}
	return r
}

func wrap(server string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", server, err)
}

// key is a resource of a view.
type key struct{ typeURL, name string }

// view is what one server has for one node.
type view struct {
	mu      sync.Mutex
	has     map[key]*wire.Resource
	version map[key]string
	refused map[key]string // resource errors
	waits   []string       // types that were not answered
	answers int            // responses until now
}

// ask asks one server until it has answered everything, and then nothing comes for a while.
func (o Options) ask(ctx context.Context, t watch.Transport, node *corev3.Node) (*view, error) {
	v := &view{has: make(map[key]*wire.Resource), version: make(map[key]string), refused: make(map[key]string)}
	c := t.Client(o.APIType, xdsclient.Options{Node: node, OnResponse: v.take})
	asked := make(map[key]bool)
	for _, s := range o.Subscriptions {
		if err := c.Serves(s.TypeURL); err != nil {
			return nil, err
		}
		c.Subscribe(s.TypeURL, s.Names...)
		for _, name := range s.Names {
			asked[key{s.TypeURL, name}] = true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	lost := make(chan error, 1)
	go func() {
		err := c.Run(ctx)
		cancel() // nothing comes any more
		lost <- err
	}()
	late := v.complete(ctx, c, asked)
	v.waits = c.Unanswered()
	cancel()
	if err := <-lost; late != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	if v.answers == 0 {
		return nil, fmt.Errorf("no answer within %v", o.Timeout)
	}
	return v, nil
}

// complete waits for all answers, and asks for what they refer to.
func (v *view) complete(ctx context.Context, c *xdsclient.Client, asked map[key]bool) error {
	for {
		if err := c.Wait(ctx, func(c *xdsclient.Client) bool { return len(c.Unanswered()) == 0 }); err != nil {
			return err
		}
		seen, more := v.referred(asked)
		for typeURL, names := range more {
			if c.Serves(typeURL) == nil {
				c.Subscribe(typeURL, slices.Sorted(slices.Values(names))...)
			}
		}
		if len(more) > 0 {
			continue
		}
		quiet, done := context.WithTimeout(ctx, watch.Quiet)
		err := c.Wait(quiet, func(*xdsclient.Client) bool { return v.count() > seen })
		done()
		if err != nil {
			return ctx.Err()
		}
	}
}

func (v *view) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.answers
}

// referred gives what the resources refer to and was not asked for, and counts the responses that it looked at.
func (v *view) referred(asked map[key]bool) (seen int, more map[string][]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	more = make(map[string][]string)
	for _, r := range v.has {
		for _, to := range references(r) {
			if !asked[to] {
				asked[to] = true
				more[to.typeURL] = append(more[to.typeURL], to.name)
			}
		}
	}
	return v.answers, more
}

// take keeps a response.
func (v *view) take(r *xdsclient.Response) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers++
	for i := range r.Changes {
		change := &r.Changes[i]
		k := key{r.TypeURL, change.Name}
		switch change.Kind {
		case xdsclient.Added, xdsclient.Changed, xdsclient.Unchanged:
			v.has[k], v.version[k] = change.Resource, change.Version
			delete(v.refused, k)
		case xdsclient.Removed, xdsclient.Absent:
			delete(v.has, k)
		case xdsclient.Failed:
			v.refused[k] = fmt.Sprintf("%v: %s", change.Error.Code, change.Error.Message)
		case xdsclient.Heartbeat, xdsclient.Unrequested:
		}
	}
	return nil
}

// differences compares what the servers have for a node.
func differences(node string, plane, relay *view) (all []Difference) {
	keys := maps.Clone(plane.has)
	maps.Copy(keys, relay.has)
	add := func(k key, what string) {
		all = append(all, Difference{node, keyer.ShortName(k.typeURL), k.name, what})
	}
	for k := range keys {
		a, b := plane.has[k], relay.has[k]
		switch {
		case b == nil && relay.refused[k] != "":
			add(k, Missing+": "+relay.refused[k])
		case b == nil:
			add(k, Missing)
		case a == nil:
			add(k, Added)
		case !equal(a, b):
			add(k, Content)
		case plane.version[k] != relay.version[k]:
			add(k, Version+": "+plane.version[k]+" and "+relay.version[k])
		}
	}
	for _, typeURL := range relay.waits {
		if !slices.Contains(plane.waits, typeURL) {
			add(key{typeURL, ""}, Unanswered)
		}
	}
	slices.SortFunc(all, func(a, b Difference) int {
		return strings.Compare(a.Type+"\x00"+a.Name, b.Type+"\x00"+b.Name)
	})
	return all
}

// equal compares two payloads. Servers may encode the same message in several ways.
func equal(a, b *wire.Resource) bool {
	if bytes.Equal(a.Any(), b.Any()) {
		return true
	}
	x, y := message(a), message(b)
	return x != nil && y != nil && proto.Equal(x, y)
}

// message is the payload, nil if it cannot be decoded.
func message(r *wire.Resource) proto.Message {
	packed := new(anypb.Any)
	if proto.Unmarshal(r.Any(), packed) != nil {
		return nil
	}
	m, err := packed.UnmarshalNew()
	if err != nil {
		return nil
	}
	return m
}
