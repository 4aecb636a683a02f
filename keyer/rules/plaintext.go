package rules

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
)

// text is a text that plain terms compare.
type text struct {
	from    origin
	literal string
	path    []string // in the metadata
	parts   []text   // of a joined text
}

// origin is where a text is taken from.
type origin uint8

const (
	fromRule origin = iota
	fromParts
	fromType
	fromName
	fromXDSTP
	fromListener
	fromID
	fromCluster
	fromRegion
	fromZone
	fromSubZone
	fromMetadata
	fromSPIFFE
	fromDomain
	fromPath
	fromSubject
	fromIssuer
	fromTokenSubject
)

// origins are those texts of a client that are fields, by their path in an expression.
var origins = map[string]origin{
	"node.id": fromID, "node.cluster": fromCluster,
	"node.locality.region": fromRegion, "node.locality.zone": fromZone, "node.locality.sub_zone": fromSubZone,
	"peer.spiffe": fromSPIFFE, "peer.trust_domain": fromDomain, "peer.spiffe_path": fromPath, "peer.subject": fromSubject,
	"peer.token.iss": fromIssuer, "peer.token.sub": fromTokenSubject,
}

// maxPlainText bounds what a client gives for one text. What is done for each of its names must not take
// longer than an evaluation may without being counted (OPS-5).
const maxPlainText = 1 << 10

// value gives a text, if it is known.
func (t *text) value(f *facts) (string, outcome) {
	value, known := t.read(f)
	if len(value) > maxPlainText && t.from != fromRule {
		return "", unclear
	}
	return value, known
}

func (t *text) read(f *facts) (string, outcome) {
	switch t.from {
	case fromRule:
		return t.literal, yes
	case fromParts:
		return t.joined(f)
	case fromType:
		return f.typeURL, yes
	case fromListener:
		return f.peer.Through(), yes
	case fromName:
		if f.name == nil {
			return "", byName
		}
		return *f.name, yes
	case fromXDSTP:
		if f.name == nil {
			return "", byName
		}
		return "", unclear
	}
	if t.from <= fromMetadata {
		return t.ofNode(f)
	}
	return f.ofPeer(t.from), yes
}

func (t *text) joined(f *facts) (string, outcome) {
	values, known := make([]string, 0, len(t.parts)), yes
	for i := range t.parts {
		value, is := t.parts[i].value(f)
		values, known = append(values, value), min(known, is)
	}
	if known != yes {
		return "", known
	}
	return strings.Join(values, ""), yes
}

// ofNode gives a text of the node. What is not set is empty there, but for metadata: a key that is not
// there fails.
func (t *text) ofNode(f *facts) (string, outcome) {
	switch locality := f.node.GetLocality(); {
	case f.node == nil:
		return "", unclear
	case t.from == fromID:
		return f.node.GetId(), yes
	case t.from == fromCluster:
		return f.node.GetCluster(), yes
	case t.from == fromRegion:
		return locality.GetRegion(), yes
	case t.from == fromZone:
		return locality.GetZone(), yes
	case t.from == fromSubZone:
		return locality.GetSubZone(), yes
	}
	if s, is := valueAt(f.node.GetMetadata(), t.path).GetKind().(*structpb.Value_StringValue); is {
		return s.StringValue, yes
	}
	return "", unclear
}

// valueAt gives a value in a map of maps; nil if it is not there.
func valueAt(s *structpb.Struct, path []string) *structpb.Value {
	for _, key := range path[:len(path)-1] {
		s = s.GetFields()[key].GetStructValue()
	}
	return s.GetFields()[path[len(path)-1]]
}

// has reports whether the metadata has a key. What the key should be in may not be there, or be no map:
// then the term fails.
func (f *facts) has(path []string) outcome {
	if f.node == nil {
		return unclear
	}
	s := f.node.GetMetadata()
	if last := len(path) - 1; last > 0 {
		if s = valueAt(s, path[:last]).GetStructValue(); s == nil {
			return unclear
		}
	}
	_, is := s.GetFields()[path[len(path)-1]]
	return truth(is)
}

// ofPeer gives a text of who the client is: empty if nobody says it.
func (f *facts) ofPeer(from origin) string {
	switch from {
	case fromDomain:
		domain, _ := f.spiffe()
		return domain
	case fromPath:
		_, path := f.spiffe()
		return path
	case fromSubject:
		return f.peer.Subject
	case fromIssuer:
		if f.peer.Token != nil {
			return f.peer.Token.Issuer
		}
		return ""
	case fromTokenSubject:
		if f.peer.Token != nil {
			return f.peer.Token.Subject
		}
		return ""
	}
	return f.peer.SPIFFE
}

// listed is a list of who the client is.
type listed uint8

const (
	noList listed = iota
	listDNS
	listURIs
	listEmails
	listIPs
	listAudience
)

// lists are the lists, by their path in an expression.
var lists = map[string]listed{
	"peer.dns": listDNS, "peer.uris": listURIs, "peer.emails": listEmails, "peer.ips": listIPs, "peer.token.aud": listAudience,
}

// has reports whether a list of the client has a text.
func (l listed) has(f *facts, text string) bool {
	switch l {
	case listDNS:
		return slices.Contains(f.peer.DNS, text)
	case listURIs:
		return slices.Contains(f.peer.URIs, text)
	case listEmails:
		return slices.Contains(f.peer.Emails, text)
	case listIPs:
		return slices.Contains(f.peer.IPs, text)
	}
	return f.peer.Token != nil && slices.Contains(f.peer.Token.Audience, text)
}
