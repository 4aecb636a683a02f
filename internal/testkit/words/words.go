// Package words has what control planes and clients say, for tests, in a few words each.
package words

import (
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Resource is one as the server sends it: "name@version", "name@version:content"
// where the version does not say which content it is, "name@version~ttl",
// "name@version|alias,alias", with "=" before it without payload, and with "!" behind it
// for one that is not to be cached.
func Resource(typeURL, text string) *wire.Resource { return resource(proto(typeURL, text)) }

// Constrained is one that is for some dynamic parameters only (DYN-1).
func Constrained(typeURL, text string) *wire.Resource {
	p := proto(typeURL, text)
	p.ResourceName = &discovery.ResourceName{
		Name: p.GetName(),
		DynamicParameterConstraints: &discovery.DynamicParameterConstraints{Type: &discovery.DynamicParameterConstraints_Constraint{
			Constraint: &discovery.DynamicParameterConstraints_SingleConstraint{
				Key: "env", ConstraintType: &discovery.DynamicParameterConstraints_SingleConstraint_Value{Value: "prod"},
			},
		}},
	}
	return resource(p)
}

func proto(typeURL, text string) *discovery.Resource {
	text, bare := strings.CutPrefix(text, "=")
	text, once := strings.CutSuffix(text, "!")
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
	if once {
		p.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	}
	if bare {
		p.Resource = nil
	}
	return p
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
