package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// script is a worked example as its file holds it: who takes part, and every
// message that is sent, in order.
type script struct {
	// Relay is the relay's configuration. Its upstreams are the control planes of
	// the example, and have no endpoints.
	Relay   map[string]any    `yaml:"relay"`
	Clients map[string]string `yaml:"clients"` // "incremental" or "state of the world", by name
	Steps   []step            `yaml:"steps"`
}

// The relay's name in a script, and the variants that its clients speak.
const (
	theRelay    = "relay"
	incremental = "incremental"
	stateOfAll  = "state of the world"
)

// step is one message of a script, or an event.
type step struct {
	line     int
	from, to string
	message  json.RawMessage // nil: an event

	event, plane string
}

// The events of a script. A control plane that is started somewhere is not there
// from the beginning.
const (
	starts = "start"
	stops  = "stop"
)

// UnmarshalYAML reads a step: a map of one key, which is "sender → receiver" with
// a message in protobuf's JSON form, or an event with the name of a control plane.
func (s *step) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return fmt.Errorf("line %d: a step is a map of one key", n.Line)
	}
	key, value := n.Content[0], n.Content[1]
	s.line = key.Line
	if key.Value == starts || key.Value == stops {
		s.event, s.plane = key.Value, value.Value
		return nil
	}
	var arrow bool
	if s.from, s.to, arrow = strings.Cut(key.Value, " → "); !arrow || (s.from == theRelay) == (s.to == theRelay) {
		return fmt.Errorf("line %d: %q: expected start, stop, or two names with an arrow, one of them the relay's", s.line, key.Value)
	}
	var tree map[string]any
	err := value.Decode(&tree)
	if err == nil {
		s.message, err = json.Marshal(tree)
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", s.line, err)
	}
	return nil
}

// readScript reads a script from its file.
func readScript(t testing.TB, path string) *script {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	s := new(script)
	if err := d.Decode(s); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for name, form := range s.Clients {
		if form != incremental && form != stateOfAll {
			t.Fatalf("%s: client %q: expected %q or %q, got %q", path, name, incremental, stateOfAll, form)
		}
	}
	return s
}

// config makes the relay's configuration, with the endpoints of the control planes. They
// are answered at once: scripts are about what is said, not about who waits for whom.
func (s *script) config(endpoint func(plane string) string) (*config.Config, error) {
	upstreams, _ := s.Relay["upstreams"].([]any)
	for _, u := range upstreams {
		u, _ := u.(map[string]any)
		name, _ := u["name"].(string)
		u["endpoints"], u["nack_wait"] = []string{endpoint(name)}, "0s"
	}
	text, err := yaml.Marshal(s.Relay)
	if err != nil {
		return nil, err
	}
	return config.Parse("relay", text)
}

// planes names the control planes: the relay's upstreams.
func (s *script) planes() []string {
	var names []string
	upstreams, _ := s.Relay["upstreams"].([]any)
	for _, u := range upstreams {
		u, _ := u.(map[string]any)
		name, _ := u["name"].(string)
		names = append(names, name)
	}
	return names
}

// startsLater reports whether a control plane is not there from the beginning.
func (s *script) startsLater(plane string) bool {
	for _, st := range s.Steps {
		if st.plane == plane {
			return st.event == starts
		}
	}
	return false
}

// decode gives a step's message, which is that of the form of the conversation that
// it belongs to.
func (s *step) decode(form messages) (envelope, error) {
	m := form.response()
	if (s.from == theRelay) == form.asks {
		m = form.request()
	}
	if err := protojson.Unmarshal(s.message, m); err != nil {
		return nil, fmt.Errorf("line %d: %w", s.line, err)
	}
	if m.GetTypeUrl() == "" {
		return nil, fmt.Errorf("line %d: a message without type_url", s.line)
	}
	return m, nil
}

// envelope is a discovery request or response of either form.
type envelope interface {
	proto.Message
	GetTypeUrl() string
}

// messages makes the messages of a conversation.
type messages struct {
	sotw bool
	asks bool // the relay is the one that sends requests
}

func (f messages) request() envelope {
	if f.sotw {
		return new(discovery.DiscoveryRequest)
	}
	return new(discovery.DeltaDiscoveryRequest)
}

func (f messages) response() envelope {
	if f.sotw {
		return new(discovery.DiscoveryResponse)
	}
	return new(discovery.DeltaDiscoveryResponse)
}
