package plane

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// wildcard is the name of everything of a type that is not unlisted.
const wildcard = "*"

// Resource is a resource as a test sets it.
type Resource struct {
	Name    string
	Message proto.Message
	// TypeURL and Payload are for what is no message of its type. They stand instead of Message.
	TypeURL string
	Payload *anypb.Any
	// Version is not counted, unless it is "". If other contents have the version from before, streams are
	// sent them all the same.
	Version string
	Aliases []string      // other names that ask for it (RES-10)
	TTL     time.Duration // 0: it stays
	// Unlisted resources are sent to clients that name them, and are not part of the
	// wildcard.
	Unlisted bool
	// Strays has the wildcard mean a resource though its name is an xdstp name (NAME-2).
	Strays bool
	// DoNotCache resources are sent with the request not to keep them (TTL-5).
	DoNotCache bool
}

// Key names a resource of a type.
type Key struct{ TypeURL, Name string }

// Change is what happens to the contents in one go.
type Change struct {
	Set    []Resource
	Remove []Key
}

// entry is a resource that the plane has.
type entry struct {
	Resource

	serves string // of a Cluster: the name of its endpoints
}

// Apply changes the contents. Each stream that asked for something of it is sent
// that, in the order of the behaviour. A resource that is set again unchanged keeps
// its version and is not sent.
func (p *Plane) Apply(c Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	touched := make(map[string]bool)
	for _, r := range c.Set {
		if r.Message != nil {
			r.TypeURL = typeOf(r.Message)
		}
		if p.setLocked(r) {
			touched[r.TypeURL] = true
		}
	}
	for _, k := range c.Remove {
		if _, ok := p.content[k.TypeURL][k.Name]; ok {
			delete(p.content[k.TypeURL], k.Name)
			touched[k.TypeURL] = true
		}
	}
	for typeURL := range touched {
		p.versions[typeURL]++
	}
	p.flushAllLocked(touched)
	p.changedLocked()
}

// Set is Apply of messages under their own names.
func (p *Plane) Set(messages ...proto.Message) {
	var c Change
	for _, m := range messages {
		c.Set = append(c.Set, Named(m))
	}
	p.Apply(c)
}

// Remove is Apply of removals of messages by their own names.
func (p *Plane) Remove(messages ...proto.Message) {
	var c Change
	for _, m := range messages {
		c.Remove = append(c.Remove, KeyOf(m))
	}
	p.Apply(c)
}

// KeyOf is the key of a message under its own name.
func KeyOf(m proto.Message) Key { return Key{TypeURL: typeOf(m), Name: nameOf(m)} }

// Forget drops all contents and begins to count versions anew, as a control plane
// does that lost everything. It is called while the plane is stopped.
func (p *Plane) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.content)
	clear(p.versions)
	p.version = 0
}

// setLocked reports whether the resource differs from the one before.
func (p *Plane) setLocked(r Resource) bool {
	if r.Message != nil {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.Message)
		if err != nil {
			panic(fmt.Sprintf("plane: %s: %v", r.Name, err)) // the test made an impossible message
		}
		r.Payload = &anypb.Any{TypeUrl: r.TypeURL, Value: b}
	}
	if p.content[r.TypeURL] == nil {
		p.content[r.TypeURL] = make(map[string]*entry)
	}
	old := p.content[r.TypeURL][r.Name]
	if old != nil && bytes.Equal(old.Payload.GetValue(), r.Payload.GetValue()) && (r.Version == "" || r.Version == old.Version) &&
		old.TTL == r.TTL && old.Unlisted == r.Unlisted && old.Strays == r.Strays && old.DoNotCache == r.DoNotCache && slices.Equal(old.Aliases, r.Aliases) {
		return false
	}
	p.version++
	switch {
	case r.Version != "":
	case p.behaviour.DigestVersions:
		r.Version = digestOf(r.Payload.GetValue())
	default:
		r.Version = strconv.Itoa(p.version) + p.behaviour.VersionSuffix
	}
	e := &entry{Resource: r}
	if c, ok := r.Message.(*clusterv3.Cluster); ok {
		e.serves = serviceName(c)
	}
	p.content[r.TypeURL][r.Name] = e
	if old != nil && old.Version == e.Version {
		p.forgetSentLocked(e)
	}
	return true
}

// forgetSentLocked has all streams lack an entry.
func (p *Plane) forgetSentLocked(e *entry) {
	for st := range p.streams {
		if s := st.types[e.TypeURL]; s != nil {
			delete(s.known, e.Name)
		}
	}
}

// Contents are the resources of a type, by name; of all types if typeURL is "".
func (p *Plane) Contents(typeURL string) []Resource {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Resource
	for _, of := range slices.Sorted(maps.Keys(p.content)) {
		for _, name := range slices.Sorted(maps.Keys(p.content[of])) {
			if typeURL == "" || typeURL == of {
				all = append(all, p.content[of][name].Resource)
			}
		}
	}
	return all
}

// Covered are the resources of a type that a stream is sent which names these, in any spelling.
func (p *Plane) Covered(typeURL string, names ...string) []Resource {
	if len(names) == 0 {
		return nil
	}
	s := newSubscription(typeURL)
	s.state(names, false)
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Resource
	for _, e := range p.coveredLocked(typeURL, s) {
		all = append(all, e.Resource)
	}
	return all
}

// Version is the version of all of a type, which its next response has.
func (p *Plane) Version(typeURL string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.versionLocked(typeURL)
}

// Lifetime changes the ttl of a resource and sends nothing: the next heartbeat has it.
func (p *Plane) Lifetime(k Key, ttl time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.content[k.TypeURL][k.Name].TTL = ttl
}

// versionLocked is the version of all of a type.
func (p *Plane) versionLocked(typeURL string) string {
	if !p.behaviour.DigestVersions {
		return strconv.Itoa(p.versions[typeURL]) + p.behaviour.VersionSuffix
	}
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(p.content[typeURL])) {
		all = fmt.Appendf(all, "%q %s\n", name, p.content[typeURL][name].Version)
	}
	return digestOf(all)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// wire is the entry as incremental responses and wrapped ones have it.
func (e *entry) wire(b *Behaviour) *discovery.Resource {
	r := &discovery.Resource{Name: e.Name, Aliases: e.Aliases, Version: e.Version, Resource: e.Payload}
	if b.EmptyVersions {
		r.Version = ""
	}
	if e.TTL > 0 {
		r.Ttl = durationpb.New(e.TTL)
	}
	if e.DoNotCache {
		r.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	}
	return r
}

// heartbeat is wire without the payload (TTL-3).
func (e *entry) heartbeat(b *Behaviour) *discovery.Resource {
	r := e.wire(b)
	r.Resource, r.Aliases = nil, nil
	return r
}

// bare is the entry as a state-of-the-world response has it: wrapped only where
// the payload alone cannot say everything.
func (e *entry) bare(b *Behaviour) *anypb.Any {
	if !b.Wrap && e.TTL == 0 && len(e.Aliases) == 0 && !e.DoNotCache {
		return e.Payload
	}
	return wrapped(e.wire(b))
}

func wrapped(r *discovery.Resource) *anypb.Any {
	b, err := proto.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("plane: %s: %v", r.GetName(), err)) // made of valid parts
	}
	return &anypb.Any{TypeUrl: wrapper, Value: b}
}

// coveredLocked are the entries of a type that a subscription means, by name.
func (p *Plane) coveredLocked(typeURL string, s *subscription) []*entry {
	var all []*entry
	for _, name := range slices.Sorted(maps.Keys(p.content[typeURL])) {
		if e := p.content[typeURL][name]; s.covers(e) {
			all = append(all, e)
		}
	}
	return all
}
