package relay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// operator carries out what operators ask for. Its methods may be called from any goroutine.
type operator struct {
	relay  *Relay
	hub    *hub
	orders *orders
	reread func(anyway bool) error // nil: nobody can
}

func (r *Relay) operator() operator { return operator{r, r.hub, &r.orders, r.reread} }

// selectors are the selectors of a command: one for each type. The error says what is wrong.
func (o operator) selectors(c *admin.Command) (hold.Selectors, error) {
	if c.Upstream != "" && !c.Future && !slices.ContainsFunc(o.hub.all(), func(s *session) bool { return s.key.plane == c.Upstream }) && o.hub.present()[c.Upstream] == nil {
		return nil, admin.Wrong("there is no upstream %q", c.Upstream)
	}
	one := hold.Selector{Upstream: c.Upstream, Scope: c.Scope}
	if len(c.Types) == 0 {
		return hold.Selectors{one}, nil
	}
	all := make(hold.Selectors, len(c.Types))
	for i, name := range c.Types {
		typeURL, err := keyer.ParseType(name)
		switch {
		case err != nil:
			return nil, admin.Wrong("%v", err)
		case o.hub.secrets.Has(typeURL):
			return nil, admin.Wrong("secrets cannot be held: one that is revoked must go")
		}
		all[i] = one
		all[i].Type = typeURL
	}
	return all, nil
}

// present says whether there is what selectors name: scopes, and types, that no order in force is
// about and no session has, are typing mistakes. The scope of xdstp names can always come.
func (o operator) present(c *admin.Command, selectors hold.Selectors) error {
	if c.Future {
		return nil
	}
	if c.Scope != nil && *c.Scope != xdstpScope {
		ordered := func(x hold.Order) bool { return x.Scope != nil && *x.Scope == *c.Scope }
		if len(o.selected(selectors)) == 0 && !slices.ContainsFunc(o.orders.now(), ordered) {
			return admin.Wrong("there is no scope %q now: /scopes lists them; with future (--future) the order waits for one", *c.Scope)
		}
	}
	for i := range selectors {
		if url := selectors[i].Type; url != "" && !o.knows(url) {
			return admin.Wrong("nobody knows the type %q: with future (--future) the order waits for it", url)
		}
	}
	return nil
}

// knows reports whether this build has a type, or an order or a session is about it.
func (o operator) knows(typeURL string) bool {
	if _, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL); err == nil {
		return true
	}
	return slices.ContainsFunc(o.orders.now(), func(x hold.Order) bool { return x.Type == typeURL }) ||
		slices.ContainsFunc(o.hub.all(), func(s *session) bool {
			return slices.ContainsFunc(s.store.Stats(), func(t cache.TypeStats) bool { return t.TypeURL == typeURL })
		})
}

// Hold freezes what a command selects.
func (o operator) Hold(c *admin.Command) (*admin.Done, error) {
	if c.Guard || c.Generation != nil || !c.At.IsZero() {
		return nil, admin.Wrong("guard is for release only, and generation and at are for rollback")
	}
	now := time.Now()
	f := hold.Freeze{Since: now}
	if c.For != "" {
		d, err := time.ParseDuration(c.For)
		if err != nil || d <= 0 {
			return nil, admin.Wrong("for: expected a duration above zero, like 30m")
		}
		f.Until = now.Add(d)
	}
	selectors, err := o.selectors(c)
	if err != nil {
		return nil, err
	}
	o.orders.mu.Lock()
	defer o.orders.mu.Unlock()
	if err := o.present(c, selectors); err != nil {
		return nil, err
	}
	all := o.orders.now()
	for _, s := range selectors {
		all = all.With(hold.Order{Selector: s, Freeze: f, Frozen: true}, now)
	}
	done := &admin.Done{Warnings: o.order(all)}
	for _, s := range o.selected(selectors) {
		s.store.Operator().Freeze(o.orders.of(s.key), nil)
		done.Scopes = append(done.Scopes, admin.DoneScope{Upstream: s.key.plane, Scope: s.key.scope})
	}
	o.hub.snapshots.soon()
	return done, nil
}

// Release releases what a command selects: what operators hold, and what the guard holds.
func (o operator) Release(c *admin.Command) (*admin.Done, error) {
	if c.For != "" || c.Generation != nil || !c.At.IsZero() {
		return nil, admin.Wrong("for is for hold only, and generation and at are for rollback")
	}
	selectors, err := o.selectors(c)
	if err != nil {
		return nil, err
	}
	o.orders.mu.Lock()
	defer o.orders.mu.Unlock()
	if err := o.present(c, selectors); err != nil {
		return nil, err
	}
	done, all := new(admin.Done), o.orders.now()
	done.Nothing = c.Guard || len(all) == 0
	if !c.Guard && len(all) > 0 {
		for _, s := range selectors {
			all = all.With(hold.Order{Selector: s}, time.Now())
		}
		done.Warnings = o.order(all)
	}
	for _, s := range o.selected(selectors) {
		before := countHeld(s.store)
		s.store.Operator().Freeze(o.orders.of(s.key), selectors.Table)
		released := before - countHeld(s.store)
		done.Nothing = done.Nothing && released == 0
		done.Scopes = append(done.Scopes, admin.DoneScope{Upstream: s.key.plane, Scope: s.key.scope, Released: released})
	}
	o.hub.snapshots.soon()
	return done, nil
}

// Reload reads the configuration again, and puts it in force, or says what that would do.
func (o operator) Reload(c *admin.Command) (*admin.Done, error) {
	if o.reread == nil || c.DryRun && o.relay.read == nil {
		return nil, admin.Wrong("this relay does not know where its configuration is")
	}
	if c.DryRun {
		done := new(admin.Done)
		cfg, err := o.relay.read()
		if err == nil {
			done.Foreseen, err = o.relay.Foresee(cfg, c.Yes)
		}
		if err != nil {
			return nil, admin.Wrong("a reload would change nothing: %v", err)
		}
		return done, nil
	}
	if err := o.reread(c.Yes); err != nil {
		return nil, admin.Wrong("the configuration stays as it was: %v", err)
	}
	done := new(admin.Done)
	for _, c := range o.relay.now.Load().waiting {
		done.Warnings = append(done.Warnings, "a changed key needs a restart: "+c.String())
	}
	return done, nil
}

// order puts orders in force, and returns what the operator should know. Where there is a disk they are
// there first. A disk that fails keeps no operator from doing anything.
func (o operator) order(all hold.Orders) (warnings []string) {
	err := o.hub.snapshots.saveOrders(all)
	switch {
	case errors.Is(err, errNoDisk):
		if len(all) > 0 {
			warnings = append(warnings, err.Error())
		}
	case err != nil:
		warnings = append(warnings, fmt.Sprintf("the order cannot be written to cache.dir, and a restart of the relay forgets it: %v", err))
	}
	o.orders.force.Store(&all)
	return warnings
}

// selected are the sessions that selectors are about.
func (o operator) selected(selectors hold.Selectors) (all []*session) {
	for _, s := range o.hub.all() {
		if !s.key.resolved && selectors.Store(s.key.plane, s.key.scope) {
			all = append(all, s)
		}
	}
	return all
}

func countHeld(s *cache.Store) (n int) {
	for _, x := range s.Operator().Held(false) {
		n += x.Lost + x.Changed
	}
	return n
}

// heldPage shows what is held of what selectors are about.
func (o operator) heldPage(selectors hold.Selectors, now time.Time) *admin.HeldPage {
	page := &admin.HeldPage{Orders: []admin.OrderView{}, Held: []admin.HeldView{}}
	for _, x := range o.orders.now() {
		if !x.Frozen || x.On(now) {
			page.Orders = append(page.Orders, viewOrder(&x))
		}
	}
	for _, s := range o.selected(selectors) {
		for _, x := range s.store.Operator().Held(true) {
			if selectors.Table(x.TypeURL) {
				page.Held = append(page.Held, s.viewHeld(o.hub.secrets, &x))
			}
		}
	}
	return page
}

func viewOrder(x *hold.Order) admin.OrderView {
	return admin.OrderView{
		Upstream: x.Upstream, Scope: x.Scope, TypeURL: x.Type, Held: x.Frozen, Since: x.Since, Until: x.Until, Endpoints: x.Flows,
	}
}

func (s *session) viewHeld(secrets *payload.Secrets, x *cache.HeldType) admin.HeldView {
	v := admin.HeldView{
		Upstream: s.key.plane, Scope: s.key.scope, TypeURL: x.TypeURL, Kind: x.Kind, Why: string(x.Why), Since: x.Since, Until: x.Until,
		Removed: x.Lost, Changed: x.Changed,
	}
	for i := range x.Names {
		if i == maxListed {
			v.More = len(x.Names) - i
			break
		}
		d := &x.Names[i]
		n := admin.HeldName{Name: d.Name}
		n.ReleasedVersion, n.Released = versionOf(d.Released), secrets.JSON(d.Released, x.TypeURL, payload.BySize)
		n.ReceivedVersion, n.Received = versionOf(d.Received), secrets.JSON(d.Received, x.TypeURL, payload.BySize)
		if d.Err != nil {
			n.Error = d.Err.Code.String() + ": " + d.Err.Message
		}
		v.Names = append(v.Names, n)
	}
	return v
}

func versionOf(r *wire.Resource) string {
	if r == nil {
		return ""
	}
	return r.Shown()
}

// heldText is a line for each order on /readyz.
func heldText(o *admin.OrderView) string {
	until := "until it is released"
	if !o.Until.IsZero() {
		until = "until " + o.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("held by an operator since %s: upstream %s, scope %s, type %s, %s",
		o.Since.UTC().Format(time.RFC3339), cmp.Or(o.Upstream, "all"), admin.ScopeText(o.Scope), cmp.Or(o.TypeURL, "all"), until)
}
