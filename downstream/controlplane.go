package downstream

import (
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxIdentified limits the places of a stream whose control planes are named. Rules may put
// a client into thousands of places.
const maxIdentified = 8

// identified is the control plane identifier that a stream has sent, by its parts.
type identified struct {
	own   *string
	parts []*string // of the places
}

// next returns the control plane identifier of a response; "" if the client knows it.
func (i *identified) next(own *string, places []*delivery.Place) string {
	var buffer [maxIdentified]*string
	parts := identifiers(buffer[:0], places)
	if i.own == own && slices.Equal(i.parts, parts) {
		return ""
	}
	*i = identified{own, slices.Clone(parts)}
	return identifier(own, parts)
}

// identifiers appends the identifiers of the control planes that fill some places, in the order of
// the places. nil stands for a control plane that did not send one.
func identifiers(buffer []*string, places []*delivery.Place) []*string {
	for _, p := range places[:min(len(places), maxIdentified)] {
		buffer = append(buffer, p.Store().ControlPlane())
	}
	return buffer
}

// identifier returns the control plane identifier of a response: the control planes, each once, and
// behind them the relay. So a reader sees a chain of relays from the left, and a relay knows
// that its upstream is a relay.
func identifier(own *string, parts []*string) string {
	var planes []string
	for _, p := range parts {
		if p != nil && !slices.Contains(planes, *p) {
			planes = append(planes, *p)
		}
	}
	// The relay's own name is at the end, which must not be cut off.
	id := wire.CutIdentifier(strings.Join(planes, ", "))
	switch {
	case *own == "":
		return id
	case id == "":
		return *own
	}
	return id + wire.Via + *own
}
