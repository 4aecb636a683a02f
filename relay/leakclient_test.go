package relay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// stamp says in a payload whose it is.
var stamp = regexp.MustCompile(`\{\{([^{}|]+)\|([^{}|]+)\}\}`)

func stampOf(typeURL, name string) string { return "{{" + typeURL + "|" + name + "}}" }

// leakForm is how a client asks.
type leakForm int

const (
	asksForChanges leakForm = iota
	asksForState
	polling
	leakForms
)

// leakClient is a client that is judged: what it is sent must be what its rules allow.
type leakClient struct {
	*testing.T

	form     leakForm
	node     *corev3.Node
	listener string
	at       *bufconn.Listener

	mu       sync.Mutex
	subject  *rules.AccessSubject // its rules now
	subs     map[string]map[string]bool
	held     map[string]map[string]string // versions, by type
	told     map[string]*leakAnswer       // what it was told of names that it asked for, since it connected
	shown    map[string]map[string]bool   // names that it was sent, or presented
	versions map[string]string            // of lists
	// presented are the types of which its stream began, or its poll came, with a version.
	presented map[string]bool
	listed    map[string]bool // types of which its stream got a list
	guesses   []string        // denied clusters that its stream began with as held
	wrong     []string
	ended     bool
	close     func()
	send      func(typeURL string, subscribe, unsubscribe []string)
}

// leakAnswer is what a client was told of a name.
type leakAnswer struct {
	code    codes.Code
	text    string
	removed bool
	by      string // the rule that denied it then
}

func (c *leakClient) failLocked(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// allowedLocked judges a name by the rules.
func (c *leakClient) allowedLocked(typeURL, name string) bool {
	d, _ := c.subject.Subscription(typeURL, name)
	return d.Allowed
}

// learnsLocked judges that the client learns of a name.
func (c *leakClient) learnsLocked(what, typeURL, name string) {
	if !c.allowedLocked(typeURL, name) && !c.subs[typeURL][name] && !c.shown[typeURL][name] {
		c.failLocked("%s tells of %s", what, name)
	}
}

// payloadLocked judges bytes.
func (c *leakClient) payloadLocked(b []byte) {
	for _, m := range stamp.FindAllSubmatch(b, -1) {
		if !c.allowedLocked(string(m[1]), string(m[2])) {
			c.failLocked("it is sent the content of %s", m[2])
		}
	}
}

func (c *leakClient) answerLocked(typeURL, name string) *leakAnswer {
	key := typeURL + " " + name
	if c.told[key] == nil {
		c.told[key] = new(leakAnswer)
	}
	return c.told[key]
}

// errorLocked judges an error.
func (c *leakClient) errorLocked(typeURL, name string, e *statuspb.Status) {
	c.learnsLocked("an error", typeURL, name)
	if !c.subs[typeURL][name] {
		return
	}
	a := c.answerLocked(typeURL, name)
	d, _ := c.subject.Subscription(typeURL, name)
	a.by = d.Rule + d.Failed
	a.code, a.text = codes.Code(e.GetCode()), strings.ReplaceAll(e.GetMessage(), name, "NAME")
	for other := range c.subs[typeURL] {
		if other != name && strings.Contains(a.text, other) && !strings.Contains(name, other) {
			c.failLocked("the error of %s says %s", name, a.text)
		}
	}
}

// delta judges a response of the incremental form.
func (c *leakClient) delta(r *discovery.DeltaDiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	typeURL := r.GetTypeUrl()
	for _, x := range r.GetResources() {
		name := x.GetName()
		if !c.allowedLocked(typeURL, name) {
			c.failLocked("it is sent a resource named %s", name)
		}
		for _, alias := range x.GetAliases() {
			c.learnsLocked("a resource", typeURL, alias)
		}
		c.payloadLocked(x.GetResource().GetValue())
		put(c.held, typeURL, name, x.GetVersion())
		put(c.shown, typeURL, name, true)
	}
	for _, name := range r.GetRemovedResources() {
		c.learnsLocked("a removal", typeURL, name)
		delete(c.held[typeURL], name)
		c.answerLocked(typeURL, name).removed = true
	}
	for _, x := range r.GetResourceErrors() {
		c.errorLocked(typeURL, x.GetResourceName().GetName(), x.GetErrorDetail())
	}
}

// state judges a response of the state of the world.
func (c *leakClient) state(r *discovery.DiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	typeURL := r.GetTypeUrl()
	for _, x := range r.GetResources() {
		if name, known := nameIn(x); !known {
			c.failLocked("it is sent a %s", x.GetTypeUrl())
		} else if !c.allowedLocked(typeURL, name) {
			c.failLocked("it is sent a resource named %s", name)
		}
		c.payloadLocked(x.GetValue())
	}
	for _, x := range r.GetResourceErrors() {
		c.errorLocked(typeURL, x.GetResourceName().GetName(), x.GetErrorDetail())
	}
	c.versions[typeURL], c.listed[typeURL] = r.GetVersionInfo(), true
}

// nameIn is the name that a payload has.
func nameIn(x *anypb.Any) (string, bool) {
	m, err := x.UnmarshalNew()
	if err != nil {
		return "", false
	}
	switch m := m.(type) {
	case *clusterv3.Cluster:
		return m.GetName(), true
	case *endpointv3.ClusterLoadAssignment:
		return m.GetClusterName(), true
	}
	return "", false
}

func put[V any](m map[string]map[string]V, typeURL, name string, v V) {
	if m[typeURL] == nil {
		m[typeURL] = make(map[string]V)
	}
	m[typeURL][name] = v
}

// connect opens the client's stream, and presents what it holds, and guesses.
func (c *leakClient) connect(guesses map[string]string) {
	c.mu.Lock()
	c.told, c.ended, c.presented, c.listed = make(map[string]*leakAnswer), false, make(map[string]bool), make(map[string]bool)
	for typeURL, version := range c.versions {
		c.presented[typeURL] = version != ""
	}
	c.guesses = nil
	for _, name := range slices.Sorted(maps.Keys(guesses)) {
		if !c.allowedLocked(clusterType, name) && !c.subs[clusterType][name] {
			c.guesses = append(c.guesses, name)
		}
	}
	subs := make(map[string][]string)
	for typeURL, names := range c.subs {
		if subs[typeURL] = slices.Sorted(maps.Keys(names)); len(subs[typeURL]) == 0 {
			delete(subs, typeURL)
		}
	}
	c.mu.Unlock()
	if c.form == polling {
		return
	}
	conn, err := grpc.NewClient("passthrough:///relay", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.at.DialContext(ctx) }))
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	c.close = func() {
		cancel()
		reading.Wait()
		_ = conn.Close()
	}
	if c.form == asksForChanges {
		c.openDelta(ctx, conn, &reading, guesses)
	} else {
		c.openState(ctx, conn, &reading)
	}
	for _, typeURL := range slices.Sorted(maps.Keys(subs)) {
		c.send(typeURL, subs[typeURL], nil)
	}
}

// finish notes that the stream ended.
func (c *leakClient) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// opened reports whether a stream was opened. Otherwise nothing can be sent.
func (c *leakClient) opened(err error) bool {
	if err != nil {
		c.finish()
		c.send = func(string, []string, []string) {}
	}
	return err == nil
}

// receive takes what comes on a stream until it ends.
func receive[R any](c *leakClient, next func() (R, error), take func(R)) {
	defer c.finish()
	for {
		r, err := next()
		if err != nil {
			return
		}
		take(r)
	}
}

func (c *leakClient) openDelta(ctx context.Context, conn *grpc.ClientConn, reading *sync.WaitGroup, guesses map[string]string) {
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if !c.opened(err) {
		return
	}
	var sending sync.Mutex
	node, begun := c.node, make(map[string]bool)
	say := func(q *discovery.DeltaDiscoveryRequest, first bool) {
		sending.Lock()
		defer sending.Unlock()
		q.Node, node = node, nil
		if first && !begun[q.GetTypeUrl()] {
			begun[q.GetTypeUrl()] = true
			c.mu.Lock()
			q.InitialResourceVersions = maps.Clone(c.held[q.GetTypeUrl()])
			if q.GetTypeUrl() == clusterType && len(guesses) > 0 {
				if q.InitialResourceVersions == nil {
					q.InitialResourceVersions = make(map[string]string)
				}
				for name, version := range guesses {
					q.InitialResourceVersions[name] = version
					put(c.shown, clusterType, name, true)
				}
			}
			c.mu.Unlock()
		}
		_ = stream.Send(q) // Recv says why it fails
	}
	c.send = func(typeURL string, subscribe, unsubscribe []string) {
		say(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: subscribe, ResourceNamesUnsubscribe: unsubscribe}, true)
	}
	reading.Go(func() {
		receive(c, stream.Recv, func(r *discovery.DeltaDiscoveryResponse) {
			c.delta(r)
			say(&discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}, false)
		})
	})
}

func (c *leakClient) openState(ctx context.Context, conn *grpc.ClientConn, reading *sync.WaitGroup) {
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if !c.opened(err) {
		return
	}
	var sending sync.Mutex
	node, nonces := c.node, make(map[string]string)
	say := func(typeURL, nonce string) {
		sending.Lock()
		defer sending.Unlock()
		if nonce != "" {
			nonces[typeURL] = nonce
		}
		c.mu.Lock()
		q := &discovery.DiscoveryRequest{
			Node: node, TypeUrl: typeURL, ResponseNonce: nonces[typeURL], VersionInfo: c.versions[typeURL],
			ResourceNames: slices.Sorted(maps.Keys(c.subs[typeURL])),
		}
		c.mu.Unlock()
		node = nil
		_ = stream.Send(q) // Recv says why it fails
	}
	c.send = func(typeURL string, _, _ []string) { say(typeURL, "") }
	reading.Go(func() {
		receive(c, stream.Recv, func(r *discovery.DiscoveryResponse) {
			c.state(r)
			say(r.GetTypeUrl(), r.GetNonce())
		})
	})
}

// poll polls for everything that the client wants, over a connection of its own.
func (c *leakClient) poll() {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.at.DialContext(ctx) }}
	defer transport.CloseIdleConnections()
	for typeURL, path := range map[string]string{clusterType: "clusters", edsType: "endpoints"} {
		c.mu.Lock()
		q := &discovery.DiscoveryRequest{
			Node: c.node, VersionInfo: c.versions[typeURL], ResourceNames: slices.Sorted(maps.Keys(c.subs[typeURL])),
		}
		c.presented[typeURL] = q.GetVersionInfo() != ""
		c.mu.Unlock()
		if len(q.GetResourceNames()) == 0 {
			continue
		}
		body, err := protojson.Marshal(q)
		if err != nil {
			c.Fatal(err)
		}
		request, err := http.NewRequest(http.MethodPost, "http://relay/v3/discovery:"+path, bytes.NewReader(body))
		if err != nil {
			c.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := transport.RoundTrip(request)
		if err != nil {
			c.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		r := new(discovery.DiscoveryResponse)
		switch {
		case err != nil:
			c.Fatal(err)
		case answer.StatusCode != http.StatusOK, len(text) == 0: // an empty one is of a poll that counts as broken off
			c.mu.Lock()
			c.payloadLocked(text)
			c.presented[typeURL] = true // this is no answer, whatever it has
			c.mu.Unlock()
			continue
		}
		if err := protojson.Unmarshal(text, r); err != nil {
			c.Fatalf("%v: %q", err, text)
		}
		c.state(r)
	}
}

// leave ends the client's stream.
func (c *leakClient) leave() {
	if c.close != nil {
		c.close()
		c.close = nil
	}
}

// wants changes what the client wants.
func (c *leakClient) wants(typeURL string, subscribe, unsubscribe []string) {
	c.mu.Lock()
	for _, name := range unsubscribe {
		delete(c.subs[typeURL], name)
		delete(c.told, typeURL+" "+name)
		put(c.shown, typeURL, name, true) // a response to it may be under way
	}
	for _, name := range subscribe {
		put(c.subs, typeURL, name, true)
	}
	c.guesses = slices.DeleteFunc(c.guesses, func(name string) bool { return typeURL == clusterType && slices.Contains(subscribe, name) })
	maps.DeleteFunc(c.held[typeURL], func(name, _ string) bool {
		return !c.subs[typeURL]["*"] && !c.subs[typeURL][name] && !c.subs[typeURL][keyer.GlobOf(name)]
	})
	if len(subscribe) > 0 && c.form == polling {
		delete(c.versions, typeURL)
	}
	ended := c.ended
	c.mu.Unlock()
	if c.form != polling && !ended {
		c.send(typeURL, subscribe, unsubscribe)
	}
}
