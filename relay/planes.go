package relay

import (
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// plane is one configured control plane. A configuration that changes how it is reached
// changes the plane; one that makes it another kind of source retires the plane, and
// another one takes its name over.
type plane struct {
	// immutable
	name     string
	observer upstream.Observer
	outages  *upstream.Outages // whether it can be reached; nil if it is made of no servers
	loads    loadreport.Observer
	gate     *loadreport.Gate // nil: there are no load reports
	forget   func()           // its metrics are nobody's then, or only another's of its name; nil: it has none

	reached  atomic.Bool // once
	reaching reaching

	// guarded by hub.mu, once the plane is the hub's
	config   config.Upstream
	upstream origin
	source   cache.Source       // of its stores
	files    *upstream.Files    // nil if it is made of servers
	servers  *upstream.Upstream // nil if it is made of files
	sessions int
	retired  bool
}

// feedsLike reports whether sessions of two configurations are the same, so that those
// that run may go on. What an upstream is asked for, and how long its answers are waited
// for, is no business of theirs.
func feedsLike(a, b config.Upstream) bool {
	for _, u := range []*config.Upstream{&a, &b} {
		u.Default, u.Authorities, u.Settle, u.ResumeSettle, u.Forward = false, nil, 0, 0, nil
		u.LoadReports, u.Required, u.Guard = "", false, config.Guard{}
		if u.APIType != config.REST {
			u.AbsentAfter = 0
		}
	}
	return reflect.DeepEqual(a, b)
}

// fits reports whether what is cached of p may stay when it is reached as next is.
func (p *plane) fits(next *plane) bool {
	return (p.files == nil) == (next.files == nil) &&
		p.source.State == next.source.State && p.source.PerType == next.source.PerType
}

// outage is what is known of whether a plane can be reached. What is made of no servers
// always can be.
func (p *plane) outage() upstream.Outage {
	if p.outages == nil {
		return upstream.Outage{}
	}
	return p.outages.Now()
}

// contact is when a plane answered, and what it owes an answer to. Files answer at once.
func (p *plane) contact() upstream.Contact {
	if p.outages == nil {
		return upstream.Contact{}
	}
	return p.outages.Contact()
}

// everReached reports whether an attempt of the relay to reach a plane succeeded, or a server of
// the plane answered a client's request before one did.
func (p *plane) everReached() bool { return p.reached.Load() || !p.contact().Answered.IsZero() }

// succeeds reports whether what is known of p's reachability is of use for another
// configuration: it speaks of the same kind of servers.
func (p *plane) succeeds(u *config.Upstream) bool {
	return p.outages != nil && u.Path == "" && p.config.APIType == u.APIType
}

// serves reports whether there are xdstp names that can only be its own (LOC-3).
func (p *plane) serves() bool { return p.config.Default || len(p.config.Authorities) > 0 }

// useless reports whether nobody will come back to a session that nobody uses: its plane
// is none any more, or the names in it live elsewhere. The caller holds hub.mu.
func (s *session) useless() bool {
	p := s.key.of
	return p != nil && (p.retired || s.ofRelay() && !p.serves())
}

// ofRelay reports whether a session shows the relay's own node: no client's plays a part.
func (s *session) ofRelay() bool { return s.key.scope == xdstpScope && !s.key.resolved }

// retire ends a plane, as soon as its last session does; those that nobody uses end now.
// The caller holds mu.
func (h *hub) retire(p *plane) {
	p.retired = true
	if h.retired == nil {
		h.retired = make(map[*plane]bool)
	}
	h.retired[p] = true
	h.closeRetired(p)
}

// closeRetired closes a retired plane that has no session left. The caller holds mu.
func (h *hub) closeRetired(p *plane) {
	if !p.retired || p.sessions > 0 {
		return
	}
	delete(h.retired, p)
	if p.forget != nil {
		p.forget()
	}
	closing := p.upstream
	h.running.Go(closing.Close)
}

// present lists the planes by name.
func (h *hub) present() map[string]*plane {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.planes
}

// census lists the planes by name, and those that are retired.
func (h *hub) census() (now map[string]*plane, retired []*plane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.retired {
		retired = append(retired, p)
	}
	slices.SortFunc(retired, func(a, b *plane) int { return strings.Compare(a.name, b.name) })
	return h.planes, retired
}

// filesOf gives the files that a plane is made of now; nil if it is made of servers.
func (h *hub) filesOf(p *plane) *upstream.Files {
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.files
}

// replicasOf lists the servers that a plane is made of now.
func (h *hub) replicasOf(p *plane) []upstream.Replica {
	h.mu.Lock()
	servers := p.servers
	h.mu.Unlock()
	if servers == nil {
		return nil
	}
	return servers.Replicas()
}

// served gives the servers that a plane is made of now, each with the sessions that have
// streams to it.
func (h *hub) served(p *plane, sessions []*session) iter.Seq2[upstream.Replica, int] {
	at := make(map[string]int)
	for _, s := range sessions {
		if s.key.of != p {
			continue
		}
		if st := s.client.Status(); st.Streams > 0 {
			at[st.Endpoint]++
		}
	}
	return func(yield func(upstream.Replica, int) bool) {
		for _, x := range h.replicasOf(p) {
			if !yield(x, at[x.Endpoint]) {
				return
			}
		}
	}
}

// reachable gives what a plane is reached through now; false if it is retired.
func (h *hub) reachable(p *plane) (origin, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.upstream, !p.retired
}

// closePlanes closes everything that has connections, when the sessions have ended.
func (h *hub) closePlanes() {
	for _, p := range h.planes {
		p.upstream.Close()
	}
	for p := range h.retired {
		p.upstream.Close()
	}
}
