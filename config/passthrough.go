package config

import (
	"fmt"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// PassRule selects streams of clients that are served 1:1: each has a stream of its own to its control plane.
// What is empty selects all.
type PassRule struct {
	Upstream string `yaml:"upstream,omitempty"`
	Scope    string `yaml:"scope,omitempty"`
	Type     string `yaml:"type,omitempty"` // short name or type URL: streams of the type's own service
}

// TypeURL is the type URL of the rule's type; "" without one.
func (r PassRule) TypeURL() string { return resolveType(r.Type) }

// HasStreams reports whether clients of the upstream can be served 1:1: it is neither polled nor made of files.
func (u *Upstream) HasStreams() bool { return u.Path == "" && u.APIType != REST }

// passthrough checks the section.
func (k *checker) passthrough(c *Config) {
	for i, r := range c.Passthrough {
		path := fmt.Sprintf("passthrough[%d]", i)
		if r.Type != "" && k.typeURL(path+".type", r.Type) && xds.ServiceOf(r.TypeURL()).TypeURL != r.TypeURL() {
			k.fail(path+".type", "%q has no discovery service of its own, so no stream is of this type alone: expected a type that has one, or no type", r.Type)
		}
		if r.Upstream == "" {
			continue
		}
		switch j := slices.IndexFunc(c.Upstreams, func(u Upstream) bool { return u.Name == r.Upstream }); {
		case j < 0:
			k.fail(path+".upstream", "there is no upstream %q", r.Upstream)
		case !c.Upstreams[j].HasStreams():
			k.fail(path+".upstream", "the upstream %q is polled or made of files: its clients cannot have streams of their own to it", r.Upstream)
		}
	}
}

// passedTypes warns of rules that select no aggregated streams.
func (w *warnings) passedTypes(c *Config) {
	for i, r := range c.Passthrough {
		if r.Type != "" {
			w.add(fmt.Sprintf("passthrough[%d].type", i), "the rule selects streams of %s only: an aggregated stream (ADS) has all types, and only a rule without a type selects it",
				xds.ServiceOf(r.TypeURL()).Name)
		}
	}
}
