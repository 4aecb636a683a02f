package peers

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// header is the metadata that has the marker of a stream, and the header that has the reply.
const header = "xdsrelay-peer-bin"

// maxMarker bounds the bytes of a marker that is looked at.
const maxMarker = 4 << 10

// Marker says that a relay asks.
type Marker struct {
	From  string `json:"from"`            // the process that asks
	Store string `json:"store,omitempty"` // the store that it asks for; "": which upstreams the peer has content of
}

// Reply is what a peer makes of a marker.
type Reply struct {
	ID      string   `json:"id"`                // the process that answers
	Ignored bool     `json:"ignored,omitempty"` // the relay that asks may not set a marker here
	Known   bool     `json:"known,omitempty"`   // the peer has the store
	AsOf    int64    `json:"as_of,omitempty"`   // Unix nanoseconds: when its content was known to be current
	Holds   []string `json:"holds,omitempty"`   // names of upstreams that the peer has content of
}

// encode is the form in which both travel.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and booleans only
	}
	return string(b)
}

// decode reads one of several values. The error says that there is none that can be read.
func decode(values []string, into any) error {
	if len(values) != 1 || len(values[0]) > maxMarker {
		return fmt.Errorf("%d values of %s, or a long one", len(values), header)
	}
	return json.Unmarshal([]byte(values[0]), into)
}

// asOf is the time of the reply.
func (r *Reply) asOf() time.Time { return time.Unix(0, r.AsOf) }

// Trusts reports whether the only URI in a client's certificate is among identities. A client
// without a certificate that was verified has none. Of several URIs nobody can say which is meant.
func Trusts(identities []string, p *keyer.Peer) bool {
	return len(p.URIs) == 1 && slices.Contains(identities, p.URIs[0])
}
