package simulate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// judge holds a response to what must be at all times. The caller holds mu.
//
//   - A response is one that a client can take (ACK-6, RES-4).
//   - What it has is what some control plane had at some time.
//   - It removes nothing that no control plane was without since that content came to be. A list
//     may lack what was not answered for absent_after (ABS-3). What the client does not want any
//     more goes with any list that comes later: a control plane's would not have it either.
//   - A route that comes has its cluster (ADS-1), if all on the way speak ADS, and the client
//     was told of clusters on this stream. Where a relay has just begun its streams anew its
//     names go on another one than its wildcard (SUB-14), and either may be answered first:
//     then the cluster may come a moment later.
func (c *client) judge(r *xdsclient.Response) {
	if r.Err != nil {
		c.fault("a response that has to be rejected: %v", r.Err)
	}
	for i := range r.Changes {
		ch := &r.Changes[i]
		k := plane.Key{TypeURL: r.TypeURL, Name: ch.Name}
		switch ch.Kind {
		case xdsclient.Added, xdsclient.Changed:
			x := c.sim.contents.find(ch.Resource.Any())
			if x == nil {
				c.fault("%s %s has a content that there never was", keyer.ShortName(r.TypeURL), ch.Name)
				continue
			}
			c.since[k], c.served[k] = x.born, true
			c.judgeRoute(x)
			c.judgeHeld(k, x, x.born)
			c.judgeAhead(x)
		case xdsclient.Removed:
			wanted, _ := c.covers(k)
			born, ok := c.since[k]
			if ok && wanted && !c.sim.contents.lackedSince(k, born) && !c.mayGiveUp(r.TypeURL) && !c.mayRollBack(k) {
				c.fault("%s %s is removed, and no control plane was without it", keyer.ShortName(r.TypeURL), ch.Name)
			}
			if ok {
				c.judgeHeld(k, nil, born)
			}
			delete(c.since, k)
			delete(c.served, k)
		default:
		}
	}
}

// mayGiveUp reports whether a list may lack what nobody answered: ABS-3 has lists of the state
// of the world wait for absent_after, and no longer, while a stream is there.
func (c *client) mayGiveUp(typeURL string) bool {
	full := typeURL == plane.Cluster || typeURL == plane.Listener
	return full && (c.form.state || c.form.rest || stateOfTheWorld(c.sim.choices.second)) && (c.sim.silent() || c.sim.bothWait(c.tier))
}

// bothWait reports whether the second relay may have waited for the list of the first one for
// absent_after, while that waited so long for a name that nobody answers. Both began anew.
func (s *simulation) bothWait(tier int) bool {
	if tier == 0 || !stateOfTheWorld(s.choices.second) {
		return false
	}
	first, second := s.relays[0], s.relays[1]
	waited := min(time.Since(first.begun()), time.Since(second.begun()))
	return waited >= absentAfter && waited < absentAfter+afresh
}

const (
	absentAfter = 15 * time.Second // config.DefaultUpstream
	aftermath   = 2 * time.Minute
)

// silence notes that an operation may have a relay wait for answers on streams that are open.
func (s *simulation) silence(o op) {
	if o.dur+time.Second < absentAfter {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(o.dur + aftermath); until.After(s.silentBy) {
		s.silentBy = until
	}
}

// silent reports whether a relay has waited for answers for absent_after.
func (s *simulation) silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.silentBy)
}

func (c *client) judgeRoute(x *thing) {
	ads := !c.form.perType && !c.form.rest && c.sim.oneStream(c.tier)
	if x.typeURL != plane.Route || !ads || !c.clusters || !c.subs[plane.Cluster][xdsclient.Wildcard] {
		return
	}
	if _, held := c.xds.Get(plane.Cluster, x.target); !held && !c.sim.unsettled(c.way()) && !c.tornApart(x) && !c.restoredWithout(x.target) {
		c.fault("%s came without its cluster", x)
	}
}

// restoredWithout reports whether a relay on the way may have no cluster, since that is not for a disk (OPS-6), while
// routes to it are: it began a short while ago, or the control planes have not answered it since.
func (c *client) restoredWithout(cluster string) bool {
	if !c.sim.choices.disk || !c.sim.contents.private(plane.Key{TypeURL: plane.Cluster, Name: cluster}) {
		return false
	}
	return c.sim.silent() || slices.ContainsFunc(c.way(), func(r *relayProcess) bool { return time.Since(r.begun()) < absentAfter+afresh })
}

// afresh is how long a relay's streams may take to be in step again.
const afresh = 20 * time.Second

// unsettled reports whether a relay on a way has begun streams a short while ago,
// or a control plane has begun anew to say what it did not.
func (s *simulation) unsettled(way []*relayProcess) bool {
	for _, r := range way {
		if time.Since(r.streamsSince()) < afresh {
			return true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.disturbed) < afresh
}

// disturb notes that the control planes' streams are out of step.
func (s *simulation) disturb() { s.disturbFor(0) }

// disturbFor notes that they are so for some time. While acknowledgements take long, a control plane that
// awaits those of clusters sends a route first.
func (s *simulation) disturbFor(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(d); until.After(s.disturbed) {
		s.disturbed = until
	}
}

func (c *client) fault(format string, args ...any) {
	c.sim.fail("%s: %s", c, fmt.Sprintf(format, args...))
}

// differs says in what a client differs from one of the control planes themselves; "" if in
// nothing.
//
// Everything that there is and that the client wants it must hold, with its last content.
// Beyond that it may hold only what nobody could tell it has gone:
//   - of types without full state, if the client or anything on the way to it speaks the
//     state of the world (RES-3): what it wants;
//   - what it or another client names, if a server on the way says nothing of names that do
//     not exist (RES-7);
//   - the members of a glob that has none any more, if the control planes say nothing of globs that
//     are empty either: a relay that forgot the members cannot know (RES-7, RES-11).
func (c *client) differs(now state) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.xds == nil {
		return "it has not begun"
	}
	var all []string
	for _, typeURL := range types() {
		held := make(map[string]*thing)
		for name := range c.xds.Versions(typeURL) {
			h, ok := c.xds.Get(typeURL, name)
			if !ok || h.Resource == nil {
				continue
			}
			held[name] = c.sim.contents.find(h.Resource.Any())
		}
		for _, name := range append(universe(typeURL), unkept) {
			k := plane.Key{TypeURL: typeURL, Name: name}
			wanted, byName := c.covers(k)
			want := now[k]
			got, holds := held[name]
			delete(held, name)
			switch {
			case !wanted:
				// A server that has not seen that it is not wanted any more may have sent it.
			case want == got && (want != nil) == holds:
			case want == nil && c.sim.tellsNot(c, k, byName):
			default:
				all = append(all, fmt.Sprintf("%s %s: holds %s, a client of the control planes would hold %s", keyer.ShortName(typeURL), name, got, want))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(held)) {
			all = append(all, fmt.Sprintf("%s %s: nobody ever had that", keyer.ShortName(typeURL), name))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprint(all)
}

// named reports whether any client has named a resource.
func (s *simulation) named(k plane.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[k]
}

// tellsNot reports whether a client need not be told that something has gone.
func (s *simulation) tellsNot(c *client, k plane.Key, byName bool) bool {
	full := k.TypeURL == plane.Cluster || k.TypeURL == plane.Listener
	return byName && s.silentServers(c.tier) || !full && (c.form.state || c.form.rest) || s.mayStay(c.tier, k)
}

// mayStay reports whether a relay need not be told that something has gone.
func (s *simulation) mayStay(tier int, k plane.Key) bool {
	full := k.TypeURL == plane.Cluster || k.TypeURL == plane.Listener
	return s.named(k) && s.silentServers(tier) || !full && s.stateOnTheWay(tier) || s.choices.silent && s.emptyGlob(k)
}

// emptyGlob reports whether the control planes have no member of the glob that a resource belongs to.
func (s *simulation) emptyGlob(k plane.Key) bool {
	glob := keyer.GlobOf(k.Name)
	if glob == "" {
		return false
	}
	for other := range s.contents.latest() {
		if other.TypeURL == k.TypeURL && keyer.GlobOf(other.Name) == glob {
			return false
		}
	}
	return true
}

// stateOnTheWay reports whether anything on the way to a relay speaks the state of the world.
func (s *simulation) stateOnTheWay(tier int) bool {
	return stateOfTheWorld(s.choices.first) || tier == 1 && stateOfTheWorld(s.choices.second)
}

// silentServers reports whether a server on the way to a relay says nothing of names that do not exist.
func (s *simulation) silentServers(tier int) bool { return s.choices.silent || s.stateOnTheWay(tier) }

// oneStream reports whether everything comes to the clients of a tier on one stream each way.
func (s *simulation) oneStream(tier int) bool {
	ads := func(apiType string) bool { return apiType == "AGGREGATED_DELTA_GRPC" || apiType == "AGGREGATED_GRPC" }
	return ads(s.choices.first) && (tier == 0 || ads(s.choices.second))
}
