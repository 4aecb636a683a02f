package relay

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// stamp says in a payload whose it is.
var stamp = regexp.MustCompile(`\{\{([^{}|]+)\|([^{}|]+)\}\}`)

func stampOf(typeURL, name string) string { return "{{" + typeURL + "|" + name + "}}" }

// leakClient is a client that is judged: what it is sent must be what its rules allow.
type leakClient struct {
	*testing.T

	form     leakForm
	node     *corev3.Node
	who      leakPeer
	listener string
	at       *bufconn.Listener
	exist    map[string][]string // names that may exist, by type

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
	streams   *leakStreams
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
	if typeURL == formerType {
		typeURL = secretType
	}
	d, _ := c.subject.Subscription(typeURL, name)
	return d.Allowed
}

// learnsLocked judges that the client learns of a name.
func (c *leakClient) learnsLocked(what, typeURL, name string) {
	if !c.allowedLocked(typeURL, name) && !c.subs[typeURL][name] && !c.shown[typeURL][name] {
		c.failLocked("%s tells of %s", what, name)
	}
}

// payloadLocked judges bytes that the client gets as resources of a type. An entry of a list it gets as
// one, or with its list.
func (c *leakClient) payloadLocked(typeURL string, b []byte) {
	for _, m := range stamp.FindAllSubmatch(b, -1) {
		owner, name := string(m[1]), string(m[2])
		if owner == clustersList && typeURL == clusterType {
			owner, name = clusterType, entryOf(name, leakEntry)
		}
		if !c.allowedLocked(owner, name) {
			c.failLocked("it is sent the content of %s", name)
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
	for ofType, names := range c.exist {
		for _, other := range names {
			if strings.Contains(a.text, other) && !c.allowedLocked(ofType, other) {
				c.failLocked("the error of %s says %s", name, a.text)
			}
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
		c.payloadLocked(typeURL, x.GetResource().GetValue())
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
		names, known := c.namesIn(x)
		if !known {
			c.failLocked("it is sent a %s", x.GetTypeUrl())
		} else if !c.allowedLocked(typeURL, names[0]) {
			c.failLocked("it is sent a resource named %s", names[0])
		}
		for _, alias := range names[min(1, len(names)):] {
			c.learnsLocked("a resource", typeURL, alias)
		}
		c.payloadLocked(typeURL, x.GetValue())
	}
	for _, x := range r.GetResourceErrors() {
		c.errorLocked(typeURL, x.GetResourceName().GetName(), x.GetErrorDetail())
	}
	c.versions[typeURL], c.listed[typeURL] = r.GetVersionInfo(), true
}

// namesIn gives the name of a resource, and its aliases: those of its wrapper, or the name that its content
// has.
func (c *leakClient) namesIn(x *anypb.Any) (names []string, known bool) {
	if x.GetTypeUrl() == formerType { // its content is the same
		x = &anypb.Any{TypeUrl: secretType, Value: x.GetValue()}
	}
	m, err := x.UnmarshalNew()
	if err != nil {
		return nil, false
	}
	switch m := m.(type) {
	case *discovery.Resource:
		return append([]string{m.GetName()}, m.GetAliases()...), c.form.wrapped
	case *clusterv3.Cluster:
		if of := stamp.FindStringSubmatch(m.GetAltStatName()); m.GetName() == leakEntry && of != nil {
			return []string{entryOf(of[2], leakEntry)}, !c.form.wrapped
		}
		return []string{m.GetName()}, !c.form.wrapped
	case *endpointv3.ClusterLoadAssignment:
		return []string{m.GetClusterName()}, !c.form.wrapped
	case *tlsv3.Secret:
		return []string{m.GetName()}, !c.form.wrapped
	}
	return nil, false
}

func put[V any](m map[string]map[string]V, typeURL, name string, v V) {
	if m[typeURL] == nil {
		m[typeURL] = make(map[string]V)
	}
	m[typeURL][name] = v
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
	if len(subscribe) > 0 && c.form.kind == polling {
		delete(c.versions, typeURL)
	}
	ended := c.ended
	c.mu.Unlock()
	if c.form.kind != polling && !ended {
		c.streams.ask(typeURL, subscribe, unsubscribe)
	}
}

// connect has the client come. It presents what it holds, and guesses.
func (c *leakClient) connect(guesses map[string]string) {
	subs := c.comes(guesses)
	c.streams = c.begin(guesses)
	if c.form.kind == polling {
		return
	}
	for _, typeURL := range slices.Sorted(maps.Keys(subs)) {
		c.streams.ask(typeURL, subs[typeURL], nil)
	}
}

// comes notes that the client begins anew, and gives what it wants, by type.
func (c *leakClient) comes(guesses map[string]string) (subs map[string][]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	subs = make(map[string][]string)
	for typeURL, names := range c.subs {
		if len(names) > 0 {
			subs[typeURL] = slices.Sorted(maps.Keys(names))
		}
	}
	return subs
}

// finish notes that a stream ended.
func (c *leakClient) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// leave ends the client's streams.
func (c *leakClient) leave() {
	if c.streams != nil {
		c.streams.leave()
		c.streams = nil
	}
}

// polls notes a poll, with a version or without.
func (c *leakClient) polls(typeURL string, versioned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.presented[typeURL] = versioned
}

// notAnswered judges the answer to a poll that is none, whatever it has.
func (c *leakClient) notAnswered(typeURL string, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.payloadLocked(typeURL, text)
	c.presented[typeURL] = true
}
