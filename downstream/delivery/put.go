package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// put is the only way of a resource into a response, of a stream and of a poll. It returns false
// if the client may not be sent the resource (ACC-3).
func (w *typeSub) put(to sink, c outgoing) bool {
	if g := w.subs.screen; g != nil {
		if c.body != nil || !g.lets(c.name, c.resource) {
			return false
		}
		g.serveByOther(c.name, c.resource.Name)
		if form := w.place.form; !form.State || form.Wrapped || c.ttl > 0 { // else no alias is sent
			c.without = g.withheld(c.resource)
		}
	}
	to.take(c)
	return true
}

// lets reports whether the client may be sent a resource under a name. It is asked before put,
// too, where an empty response would be begun.
func (g *screen) lets(name string, r *wire.Resource) bool {
	return g == nil || g.allows(Content, name, r.Name)
}

// outgoing is what goes into a response: one resource under a name, or many at once.
type outgoing struct {
	format   format
	resource *wire.Resource
	name     string
	ttl      time.Duration
	without  []string // aliases of the resource that the client may not have
	body     *wire.Body
}

// sink takes resources.
type sink interface{ take(c outgoing) }

// take adds content that may go to the client. Only put calls it.
func (b *Batch) take(c outgoing) {
	if c.body != nil {
		b.Body.AddBody(c.body)
		return
	}
	c.format.add(&b.Body, c.resource.Without(c.without), c.name, c.ttl)
}
