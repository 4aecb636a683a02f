// Package words has what control planes and clients say, for tests, in a few words each.
package words

import (
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Resource is one as the server sends it: "name@version", "name@version:content"
// where the version does not say which content it is, "name@version~ttl",
// "name@version|alias,alias", and with "=" before it without payload.
func Resource(typeURL, text string) *wire.Resource {
	text, bare := strings.CutPrefix(text, "=")
	text, aliases, _ := strings.Cut(text, "|")
	text, ttl, timed := strings.Cut(text, "~")
	text, content, ok := strings.Cut(text, "@")
	name := text
	version := content
	if ok {
		if v, c, ok := strings.Cut(content, ":"); ok {
			version, content = v, c
		}
	}
	p := &discovery.Resource{
		Name: name, Version: version,
		Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte(name + content)},
	}
	if aliases != "" {
		p.Aliases = strings.Split(aliases, ",")
	}
	if timed {
		p.Ttl = duration(ttl)
	}
	if bare {
		p.Resource = nil
	}
	return resource(p)
}

// Heartbeat is a resource without version and payload.
func Heartbeat(name string) *wire.Resource {
	return resource(&discovery.Resource{Name: name})
}

func resource(p *discovery.Resource) *wire.Resource {
	r, err := wire.NewResource(p)
	if err != nil {
		panic(err)
	}
	return r
}

func duration(ttl string) *durationpb.Duration {
	d, err := time.ParseDuration(ttl)
	if err != nil {
		panic(err)
	}
	return durationpb.New(d)
}

// Response is what the server says: "+name@version" (see Resource), "-name", and
// "=name@version~ttl" for a heartbeat.
func Response(typeURL string, words ...string) *wire.Response {
	r := &wire.Response{TypeURL: typeURL}
	for _, w := range words {
		switch w[0] {
		case '+':
			r.Resources = append(r.Resources, Resource(typeURL, w[1:]))
		case '=':
			r.Resources = append(r.Resources, Resource(typeURL, w))
		case '-':
			r.Removed = append(r.Removed, w[1:])
		default:
			panic(w)
		}
	}
	return r
}

// Locator reads "name{env=prod version=v1}".
func Locator(text string) string {
	name, parameters, ok := strings.Cut(strings.TrimSuffix(text, "}"), "{")
	if !ok {
		return text
	}
	p := make(map[string]string)
	for pair := range strings.FieldsSeq(parameters) {
		key, value, _ := strings.Cut(pair, "=")
		p[key] = value
	}
	return wire.Locator(name, p)
}

// Constraints reads "env=prod,!version": all of them, where "!" is not, and a key
// alone is its existence.
func Constraints(text string) *discovery.DynamicParameterConstraints {
	var list []*discovery.DynamicParameterConstraints
	for term := range strings.SplitSeq(text, ",") {
		term, inverted := strings.CutPrefix(term, "!")
		single := &discovery.DynamicParameterConstraints_SingleConstraint{}
		key, value, ok := strings.Cut(term, "=")
		single.Key = key
		if ok {
			single.ConstraintType = &discovery.DynamicParameterConstraints_SingleConstraint_Value{Value: value}
		} else {
			single.ConstraintType = &discovery.DynamicParameterConstraints_SingleConstraint_Exists_{}
		}
		c := &discovery.DynamicParameterConstraints{Type: &discovery.DynamicParameterConstraints_Constraint{Constraint: single}}
		if inverted {
			c = &discovery.DynamicParameterConstraints{Type: &discovery.DynamicParameterConstraints_NotConstraints{NotConstraints: c}}
		}
		list = append(list, c)
	}
	return &discovery.DynamicParameterConstraints{Type: &discovery.DynamicParameterConstraints_AndConstraints{
		AndConstraints: &discovery.DynamicParameterConstraints_ConstraintList{Constraints: list},
	}}
}

// Encode returns the bytes of a message, the same for equal messages.
func Encode(m proto.Message) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Variant reads "name[env=prod]@version", with "~ttl" and "!" for one that is
// not to be cached behind it, and "=" before it for a heartbeat.
func Variant(typeURL, text string) *wire.Resource {
	text, bare := strings.CutPrefix(text, "=")
	text, relayed := strings.CutSuffix(text, "!")
	text, ttl, timed := strings.Cut(text, "~")
	text, version, _ := strings.Cut(text, "@")
	name, constraints, ok := strings.Cut(strings.TrimSuffix(text, "]"), "[")
	p := &discovery.Resource{Version: version, Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte(text + version)}}
	if ok {
		p.ResourceName = &discovery.ResourceName{Name: name, DynamicParameterConstraints: Constraints(constraints)}
	} else {
		p.Name = name
	}
	if timed {
		p.Ttl = duration(ttl)
	}
	if relayed {
		p.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	}
	if bare {
		p.Resource = nil
	}
	return resource(p)
}
