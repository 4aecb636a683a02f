package downstream

import (
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// maxIdentified is how many of a stream's places are looked at for who serves it. Rules
	// may put a client into thousands.
	maxIdentified = 8
	// via stands between what control planes call themselves and the relay's own name.
	via = " via "
)

// SetIdentifier changes what the relay calls itself towards clients (STR-10).
func (s *Server) SetIdentifier(own string) { s.identifier.Store(&own) }

// identified is what a client was told of who serves it.
type identified struct {
	own   *string
	parts []*string // of the places
}

// current reports whether nothing else is to be told than was.
func (i *identified) current(own *string, parts []*string) bool {
	return i.own == own && slices.Equal(i.parts, parts)
}

// identifiers are what the control planes call themselves that fill some places, in their
// order; nil stands for one that did not say.
func identifiers(buffer []*string, places []*cache.Client) []*string {
	for _, p := range places[:min(len(places), maxIdentified)] {
		buffer = append(buffer, p.Store().ControlPlane())
	}
	return buffer
}

// identifier is what a response says of who sends it: the control planes, each once, and
// behind them the relay. So a chain of relays can be read from the left, and a relay knows
// that its upstream is one.
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
	return id + via + *own
}

// identify has a response say who sends it, if the stream was not told yet.
func (st *stream) identify(b *wire.Builder) {
	var buffer [maxIdentified]*string
	own, parts := st.server.identifier.Load(), identifiers(buffer[:0], st.places.Places())
	if st.identified.current(own, parts) {
		return
	}
	st.identified = identified{own, slices.Clone(parts)}
	if id := identifier(own, parts); id != "" {
		b.SetControlPlane(id, st.variant.form == stateForm)
	}
}
