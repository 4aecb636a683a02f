package xdsclient

import "github.com/xdsrelay/xdsrelay/internal/wire"

// Response is what one response says, compared with what the client holds.
type Response struct {
	TypeURL, Nonce string
	// SystemVersion is system_version_info, or version_info in the forms that
	// have that.
	SystemVersion string
	// Size is that of the encoded message in bytes.
	Size int
	// Changes are in the order of the message: resources, removals, errors. What is
	// removed by not being mentioned (RES-8) comes last, in the order of names.
	Changes []Change
	// Err says what is wrong with the response by itself; it is rejected for that
	// whatever OnResponse returns, and Changes is empty (ACK-6).
	Err error
}

// Count gives the number of changes of a kind.
func (r *Response) Count(k Kind) int {
	n := 0
	for i := range r.Changes {
		if r.Changes[i].Kind == k {
			n++
		}
	}
	return n
}

// Change is what a response says of one name.
type Change struct {
	Kind Kind
	Name string
	// Version is the one in the response, Old the one held before; "" without. Where
	// the form has no versions of resources it is a digest (ACK-4).
	Version, Old string
	// Resource is set where the response holds one. It is immutable and may be kept.
	Resource *wire.Resource
	// Error is set for Failed.
	Error *wire.ResourceError
}

// Kind is how a response changes a name.
type Kind int

// The kinds.
const (
	Added       Kind = iota // was not held
	Changed                 // was held with another version or content
	Unchanged               // is held as it is: sent again (SUB-5, SUB-6)
	Heartbeat               // no payload and the version that is held: its ttl is renewed (TTL-3)
	Removed                 // was held
	Absent                  // does not exist, and was not held (RES-6)
	Failed                  // is not available, for the reason in Error (ERR-1)
	Unrequested             // nothing that is subscribed covers it; it is not kept
)

// String gives the kind in lower case.
func (k Kind) String() string {
	switch k {
	case Added:
		return "added"
	case Changed:
		return "changed"
	case Unchanged:
		return "unchanged"
	case Heartbeat:
		return "heartbeat"
	case Removed:
		return "removed"
	case Absent:
		return "absent"
	case Failed:
		return "failed"
	case Unrequested:
		return "unrequested"
	default:
		return "unknown"
	}
}

// Held is what a client holds under a name.
type Held struct {
	Version  string
	Resource *wire.Resource // with Options.KeepResources
}
