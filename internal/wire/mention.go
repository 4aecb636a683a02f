package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

const (
	// maxMention is the length from which on nothing is taken for a name. Messages that hold
	// others are mostly longer.
	maxMention = 1 << 10
	// maxMentionDepth is how deep messages may lie in each other: what lies deeper most
	// protobuf libraries refuse to decode.
	maxMentionDepth = 100
	// fieldOwnName is the name of each resource that refers to others, and of a virtual host.
	fieldOwnName      = 1
	fieldVirtualHosts = 2 // of a RouteConfiguration
	fieldDomains      = 2 // of a VirtualHost
)

// Mentions calls yield with everything in the payload that may be the name of another
// resource, until that returns false. That is every string at any depth: filters,
// transport sockets and extensions refer to clusters, routes and secrets in messages of
// their own, which nobody here need know. It is also what only looks like one. The
// resource's own name is left out, and so are the names and domains of virtual hosts: they
// are often called like what their routes lead to. The strings lie in the resource's bytes.
func (r *Resource) Mentions(yield func(name string) bool) {
	routes := r.TypeURL() == xds.RouteType
	for it := (fields{rest: r.value()}); it.next(); {
		switch {
		case it.typ != protowire.BytesType || it.num == fieldOwnName:
		case routes && it.num == fieldVirtualHosts:
			if !hostMentions(it.body, yield) {
				return
			}
		case !mentions(it.body, maxMentionDepth, yield):
			return
		}
	}
}

// value is the encoded message of the payload.
func (r *Resource) value() (value []byte) {
	for it := (fields{rest: r.Any()}); it.next(); {
		if it.is(fieldAnyValue, protowire.BytesType) {
			value = it.body
		}
	}
	return value
}

// hostMentions is Mentions for a virtual host.
func hostMentions(host []byte, yield func(string) bool) bool {
	for it := (fields{rest: host}); it.next(); {
		if it.typ == protowire.BytesType && it.num != fieldOwnName && it.num != fieldDomains &&
			!mentions(it.body, maxMentionDepth, yield) {
			return false
		}
	}
	return true
}

// mentions is Mentions for what may be a string, or a message with strings in it.
func mentions(b []byte, depth int, yield func(string) bool) bool {
	if len(b) > 0 && len(b) <= maxMention && !yield(view(b)) {
		return false
	}
	if depth == 0 {
		return true
	}
	for it := (fields{rest: b}); it.next(); {
		if it.typ == protowire.BytesType && !mentions(it.body, depth-1, yield) {
			return false
		}
	}
	return true
}
