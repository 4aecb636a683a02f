package relay

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// Rollback puts what clients of the selected scopes get back to what they had at a time, or in a
// generation, and holds it there. Endpoints and secrets go on as they are.
func (o operator) Rollback(c *admin.Command) (*admin.Done, error) {
	selectors, err := o.selectors(c)
	switch {
	case err != nil:
		return nil, err
	case c.Guard || c.For != "":
		return nil, admin.Wrong("guard is for release only, and for is for hold")
	case (c.Generation == nil) == c.At.IsZero():
		return nil, admin.Wrong("expected a generation, or a time (at)")
	}
	for _, s := range selectors {
		if s.Type != "" && xds.RankOf(s.Type) == xds.RankEndpoint {
			return nil, admin.Wrong("endpoints cannot be rolled back: those of before may be gone")
		}
	}
	o.orders.mu.Lock()
	defer o.orders.mu.Unlock()
	sessions := o.selected(selectors)
	targets, done, err := targetsOf(sessions, c)
	if err != nil {
		return nil, err
	}
	f := hold.Freeze{Since: time.Now()}
	all := o.orders.now()
	for _, s := range about(selectors, sessions, done) {
		all = all.With(hold.Order{Selector: s, Freeze: f, Frozen: true, Flows: true}, f.Since)
	}
	done.Warnings = o.order(all)
	for i, s := range sessions {
		x := &done.Scopes[i]
		if x.Error != "" {
			continue
		}
		x.Changed, err = s.store.Operator().Rollback(targets[i], o.orders.of(s.key), selectors.Table)
		if x.Generation = targets[i]; err != nil {
			x.Error = err.Error() // it was forgotten just now
		}
	}
	o.hub.snapshots.soon()
	return done, nil
}

// targetsOf are the generations that a command names, of each session. Where one is not remembered, the
// scope has an error. If none is, the command is wrong.
func targetsOf(sessions []*session, c *admin.Command) (targets []uint64, done *admin.Done, err error) {
	if c.Generation != nil && len(sessions) != 1 {
		return nil, nil, admin.Wrong("the number of a generation is that of one scope, and %d are selected: give a time, or select one", len(sessions))
	}
	if len(sessions) == 0 {
		return nil, nil, admin.Wrong("there is no such scope")
	}
	done, targets = new(admin.Done), make([]uint64, len(sessions))
	known := 0
	for i, s := range sessions {
		x := admin.DoneScope{Upstream: s.key.plane, Scope: s.key.scope}
		o := s.store.Operator()
		var ok bool
		if c.Generation != nil {
			targets[i] = *c.Generation
			ok = slices.ContainsFunc(o.Generations(), func(g cache.Generation) bool { return g.Number == targets[i] })
		} else {
			targets[i], ok = o.GenerationAt(c.At)
		}
		if ok {
			known++
		} else {
			x.Error = cache.ErrNoGeneration.Error()
		}
		done.Scopes = append(done.Scopes, x)
	}
	if known == 0 {
		return nil, nil, admin.Wrong("%v", cache.ErrNoGeneration)
	}
	return targets, done, nil
}

// about are the selectors of the orders that hold what is rolled back. Scopes of which the relay does not
// remember the state stay as they are: then each of the others has its own.
func about(selectors hold.Selectors, sessions []*session, done *admin.Done) (own hold.Selectors) {
	if !slices.ContainsFunc(done.Scopes, func(x admin.DoneScope) bool { return x.Error != "" }) {
		return selectors
	}
	for i, s := range sessions {
		for _, x := range selectors {
			if done.Scopes[i].Error == "" {
				own = append(own, hold.Selector{Upstream: s.key.plane, Scope: &s.key.scope, Type: x.Type})
			}
		}
	}
	return own
}
