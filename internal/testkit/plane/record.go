package plane

import (
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// Request is a request that the plane was sent.
type Request struct {
	At      time.Time
	Stream  int // counted from 1; 0 for a poll
	Delta   bool
	REST    bool
	Node    string
	TypeURL string

	Subscribe   []string // for the state of the world: all names
	Unsubscribe []string
	Versions    map[string]string // initial_resource_versions
	VersionInfo string
	Nonce       string

	Rejects   bool // it is a NACK
	Rejection string

	Message proto.Message // as it came
}

// Response is a response that the plane sent.
type Response struct {
	At      time.Time
	Stream  int // 0 for the answer to a poll
	TypeURL string
	Version string
	Nonce   string
	Names   []string
	Removed []string
}

func (r Response) now() Response {
	r.At = time.Now()
	return r
}

// Requests are the requests of a type until now, of all types if typeURL is "".
func (p *Plane) Requests(typeURL string) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.requests), func(r Request) bool { return typeURL != "" && r.TypeURL != typeURL })
}

// Responses are the responses of a type until now, of all types if typeURL is "".
func (p *Plane) Responses(typeURL string) []Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.responses), func(r Response) bool { return typeURL != "" && r.TypeURL != typeURL })
}

// Rejections are the messages of the NACKs of a type, of all types if typeURL is "".
func (p *Plane) Rejections(typeURL string) []string {
	var all []string
	for _, r := range p.Requests(typeURL) {
		if r.Rejects {
			all = append(all, r.Rejection)
		}
	}
	return all
}

// Streams is the number of gRPC streams that are open now.
func (p *Plane) Streams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.streams)
}

// Stream is a gRPC stream that is open now.
type Stream struct {
	Number int
	Delta  bool
	Node   *corev3.Node
	Names  map[string][]string // it subscribes to, by type URL, in their one spelling and with the wildcard
}

// Open are the gRPC streams that are open now.
func (p *Plane) Open() []Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Stream
	for st := range p.streams {
		s := Stream{Number: st.number, Delta: st.delta, Node: st.node, Names: make(map[string][]string)}
		for typeURL, of := range st.types {
			names := slices.Sorted(maps.Keys(of.names))
			if of.star {
				names = append([]string{wildcard}, names...)
			}
			s.Names[typeURL] = names
		}
		all = append(all, s)
	}
	return all
}

// Polling is the number of polls of a type that wait now.
func (p *Plane) Polling(typeURL string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.polling[typeURL]
}

// Opened is the number of gRPC streams that were opened until now.
func (p *Plane) Opened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// Progress is how many responses the plane has sent, and of how many types of streams that are open the last one has no
// answer yet.
func (p *Plane) Progress() (sent, unanswered int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for st := range p.streams {
		for _, s := range st.types {
			if s.outstanding {
				unanswered++
			}
		}
	}
	return len(p.responses), unanswered
}

// Asked reports whether a stream that is open now subscribes to a name.
func (p *Plane) Asked(typeURL, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for st := range p.streams {
		if s := st.types[typeURL]; s != nil && (s.names[key(name)] || name == wildcard && s.star) {
			return true
		}
	}
	return false
}

// recordLocked keeps a request. A stream's node comes with its first one (STR-1).
func (p *Plane) recordLocked(st *stream, r Request, node *corev3.Node) {
	if node != nil {
		st.node = node
	}
	r.At, r.Stream, r.Delta, r.Node = time.Now(), st.number, st.delta, st.node.GetId()
	p.requests = append(p.requests, r)
}

func (p *Plane) recordDeltaLocked(st *stream, r *discovery.DeltaDiscoveryResponse) {
	record := Response{
		Stream: st.number, TypeURL: r.GetTypeUrl(), Version: r.GetSystemVersionInfo(), Nonce: r.GetNonce(),
		Removed: r.GetRemovedResources(),
	}
	for _, x := range r.GetResources() {
		record.Names = append(record.Names, x.GetName())
	}
	p.sentLocked(record)
}
