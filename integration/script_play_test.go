package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	// The messages of the scripts hold payloads of these types.
	_ "github.com/xdsrelay/xdsrelay/internal/xds/apitypes"
)

// play plays a script against a relay: it is the clients and the control planes, and
// holds the relay to every message.
type play struct {
	t       *testing.T
	script  *script
	relay   *testRelay
	planes  map[string]*scriptedPlane
	clients map[string]*scriptedClient
	wanted  map[string]map[string]map[string]bool // by client and type: what it subscribes to
}

func playScript(t *testing.T, path string) {
	t.Helper()
	p := &play{
		t: t, script: readScript(t, path), planes: make(map[string]*scriptedPlane),
		clients: make(map[string]*scriptedClient), wanted: make(map[string]map[string]map[string]bool),
	}
	for _, name := range p.script.planes() {
		p.planes[name] = newScriptedPlane(t)
		if !p.script.startsLater(name) {
			p.planes[name].start(t)
		}
	}
	cfg, err := p.script.config(func(plane string) string { return p.planes[plane].addr })
	if err != nil {
		t.Fatal(err)
	}
	p.relay = startRelay(t, func(c *config.Config) {
		cfg.Server.Drain, cfg.Aggregation.Otherwise = c.Server.Drain, c.Aggregation.Otherwise
		*c = *cfg
		for i := range c.Upstreams {
			c.Upstreams[i].ResponseTimeout = 0 // what it asks a server that comes back is no part of the proposal (SUR-2)
		}
	})
	for name, form := range p.script.Clients {
		p.clients[name] = newScriptedClient(t, p.relay.addr, messages{sotw: form == stateOfAll})
		p.wanted[name] = make(map[string]map[string]bool)
	}
	for i := range p.script.Steps {
		p.step(&p.script.Steps[i])
	}
	p.end()
}

// peer finds who talks to the relay in a step.
func (p *play) peer(s *step) (string, *peer) {
	name := s.from
	if name == theRelay {
		name = s.to
	}
	if c := p.clients[name]; c != nil {
		return name, &c.peer
	}
	plane := p.planes[name]
	if plane == nil {
		p.t.Fatalf("line %d: there is no %q", s.line, name)
	}
	return name, &plane.peer
}

func (p *play) step(s *step) {
	p.t.Helper()
	if s.event != "" {
		p.event(s)
		return
	}
	name, peer := p.peer(s)
	m, err := s.decode(peer.form)
	if err != nil {
		p.t.Fatal(err)
	}
	if s.to == theRelay {
		if err := peer.say(m); err != nil {
			p.t.Fatalf("line %d: %v", s.line, err)
		}
		if p.clients[name] != nil {
			p.note(name, m)
		}
		return
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	got, err := peer.await(ctx, m.GetTypeUrl())
	if err != nil {
		p.t.Fatalf("line %d: never sent: %v; what came to %s and is not in the script yet: %s", s.line, err, name, texts(peer.rest()))
	}
	if !peer.form.asks {
		if err := peer.bind(m, got); err != nil {
			p.t.Fatalf("line %d: %v", s.line, err)
		}
	}
	if diff := gocmp.Diff(m, got, compared(m)); diff != "" {
		p.t.Fatalf("line %d: %s → %s (-want +got):\n%s", s.line, s.from, s.to, diff)
	}
}

// event starts or stops a control plane. It is started when all that clients asked
// for has come to the relay, so that the relay can ask for it in one request.
func (p *play) event(s *step) {
	p.t.Helper()
	plane := p.planes[s.plane]
	switch {
	case plane == nil:
		p.t.Fatalf("line %d: there is no control plane %q", s.line, s.plane)
	case s.event == stops:
		plane.stop()
	default:
		waitFor(p.t, fmt.Sprintf("line %d: what clients asked for", s.line), p.asked)
		plane.start(p.t)
	}
}

// note keeps what a client subscribes to.
func (p *play) note(client string, m envelope) {
	all := p.wanted[client]
	names := all[m.GetTypeUrl()]
	if names == nil {
		names = make(map[string]bool)
		all[m.GetTypeUrl()] = names
	}
	switch r := m.(type) {
	case *discovery.DeltaDiscoveryRequest:
		for _, n := range r.GetResourceNamesUnsubscribe() {
			delete(names, n)
		}
		for _, n := range r.GetResourceNamesSubscribe() {
			names[n] = true
		}
	case *discovery.DiscoveryRequest:
		clear(names)
		for _, n := range r.GetResourceNames() {
			names[n] = true
		}
	}
}

// asked reports whether the relay has taken all subscriptions of the clients.
func (p *play) asked() bool {
	code, body := p.relay.get(p.t, "/clients")
	var streams []downstream.Status
	if err := json.Unmarshal([]byte(body), &streams); err != nil || code != http.StatusOK {
		p.t.Fatalf("/clients: %d, %v", code, err)
	}
	got, want := 0, 0
	for _, s := range streams {
		for _, t := range s.Types {
			got += t.Subscriptions
		}
	}
	for _, types := range p.wanted {
		for _, names := range types {
			want += len(names)
		}
	}
	return got == want
}

// end stops everybody and reports what was said beside the script.
func (p *play) end() {
	p.t.Helper()
	p.relay.consistent(p.t)
	p.relay.stop()
	for name, c := range p.clients {
		c.stop()
		if c.streams != 1 || len(c.rest()) > 0 {
			p.t.Errorf("%s: %d streams, want 1; not in the script: %s", name, c.streams, texts(c.rest()))
		}
	}
	for name, plane := range p.planes {
		plane.stop()
		if more := plane.rest(); len(more) > 0 {
			p.t.Errorf("%s: not in the script: %s", name, texts(more))
		}
	}
}

// say sends a message, with the relay's own nonces and versions for those that the
// script has.
func (p *peer) say(m envelope) error {
	p.mu.Lock()
	g := p.stream
	own := func(s string) string { return cmp.Or(p.symbols[s], s) }
	switch r := m.(type) {
	case *discovery.DeltaDiscoveryRequest:
		r.ResponseNonce = own(r.GetResponseNonce())
	case *discovery.DiscoveryRequest:
		r.ResponseNonce, r.VersionInfo = own(r.GetResponseNonce()), own(r.GetVersionInfo())
	}
	p.mu.Unlock()
	if g == nil {
		return errors.New("nobody has opened a stream yet")
	}
	return g.SendMsg(m)
}

// bind keeps what the relay calls a response, and in the state of the world its
// version, which are digests there: they have names of their own in the script. A
// nonce must be new (STR-3), a version the same for the same (ACK-4).
func (p *peer) bind(want, got envelope) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch w := want.(type) {
	case *discovery.DeltaDiscoveryResponse:
		return p.bindLocked(&w.Nonce, got.(*discovery.DeltaDiscoveryResponse).GetNonce())
	case *discovery.DiscoveryResponse:
		g := got.(*discovery.DiscoveryResponse)
		if version, known := p.symbols[w.GetVersionInfo()]; known {
			w.VersionInfo = version
		} else if err := p.bindLocked(&w.VersionInfo, g.GetVersionInfo()); err != nil {
			return err
		}
		return p.bindLocked(&w.Nonce, g.GetNonce())
	}
	return nil
}

func (p *peer) bindLocked(name *string, value string) error {
	for _, before := range p.symbols {
		if before == value {
			return fmt.Errorf("STR-3, ACK-4: nonce or version %q, which the script calls %q, came before", value, *name)
		}
	}
	if value == "" || *name == "" || p.symbols[*name] != "" {
		return fmt.Errorf("nonce or version %q, which the script calls %q", value, *name)
	}
	p.symbols[*name] = value
	*name = value
	return nil
}

// compared says how messages are compared: field by field, payloads included. The
// order of resources and of names means nothing. What the relay can do as a client,
// and its version, are not the scripts' matter; nor is its node where the script
// leaves it out.
func compared(want envelope) gocmp.Options {
	options := gocmp.Options{
		protocmp.Transform(),
		protocmp.SortRepeated(func(x, y *discovery.Resource) bool { return x.GetName() < y.GetName() }),
		protocmp.SortRepeated(func(x, y *anypb.Any) bool { return slices.Compare(x.GetValue(), y.GetValue()) < 0 }),
		protocmp.SortRepeatedFields(new(discovery.DeltaDiscoveryResponse), "removed_resources"),
		protocmp.SortRepeatedFields(new(discovery.DeltaDiscoveryRequest), "resource_names_subscribe", "resource_names_unsubscribe"),
		protocmp.SortRepeatedFields(new(discovery.DiscoveryRequest), "resource_names"),
		// It comes with a stream's first response, and the examples do not have it (STR-10).
		protocmp.IgnoreFields(new(discovery.DeltaDiscoveryResponse), "control_plane"),
		protocmp.IgnoreFields(new(discovery.DiscoveryResponse), "control_plane"),
		protocmp.IgnoreFields(new(corev3.Node), "client_features", "user_agent_version", "user_agent_build_version"),
	}
	if r, ok := want.(*discovery.DeltaDiscoveryRequest); ok && r.GetNode() == nil {
		options = append(options, protocmp.IgnoreFields(r, "node"))
	}
	return options
}

// texts shows messages.
func texts(all []envelope) string {
	lines := []string{fmt.Sprint(len(all), " messages")}
	for _, m := range all {
		lines = append(lines, prototext.Format(m))
	}
	return strings.Join(lines, "\n")
}
