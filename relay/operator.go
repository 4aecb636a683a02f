package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/payload"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Command is what an operator asks a relay to do, in JSON (POST /hold, /release and /rollback). What is
// left out selects everything.
type Command struct {
	Upstream string   `json:"upstream,omitempty"`
	Scope    *string  `json:"scope,omitempty"` // "": the scope of xdstp names
	Types    []string `json:"types,omitempty"` // short names or type URLs
	For      string   `json:"for,omitempty"`   // of hold: a duration; "": until it is released
	Guard    bool     `json:"guard,omitempty"` // of release: only what the guard holds
	// Future says that the upstream, scope or types may come later. Without it a command that is
	// about nothing that there is, is a typing mistake.
	Future bool `json:"future,omitempty"`

	// Of rollback: the number of a generation, if one scope is selected, or a time.
	Generation *uint64   `json:"generation,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// Done is what became of a command.
type Done struct {
	Scopes   []DoneScope `json:"scopes"`             // those that there are, and that it was about
	Nothing  bool        `json:"nothing,omitempty"`  // of release: nothing was held
	Warnings []string    `json:"warnings,omitempty"` // what the operator should know
}

// DoneScope is what a command did in one scope.
type DoneScope struct {
	Upstream string `json:"upstream"`
	Scope    string `json:"scope"`
	Released int    `json:"released,omitempty"` // names of which clients are told what was held
	// Of rollback.
	Generation uint64 `json:"generation,omitempty"` // that clients have now
	Changed    int    `json:"changed,omitempty"`    // names that changed for that
	Error      string `json:"error,omitempty"`      // why it was not done in this scope
}

// Totals adds up what a command did in all scopes, and in how many it was not done.
func (d *Done) Totals() (released, changed, failed int) {
	for _, s := range d.Scopes {
		released, changed = released+s.Released, changed+s.Changed
		if s.Error != "" {
			failed++
		}
	}
	return released, changed, failed
}

// commandError is that a command is wrong.
type commandError struct{ reason string }

func (e *commandError) Error() string { return e.reason }

func wrong(format string, args ...any) error {
	return &commandError{fmt.Sprintf(format, args...)}
}

// operator carries out what operators ask for. Its methods may be called from any goroutine.
type operator struct {
	hub    *hub
	orders *orders
}

func (a adminPort) operator() operator { return operator{a.relay.hub, &a.relay.orders} }

// selectors are the selectors of a command: one for each type. The error says what is wrong.
func (o operator) selectors(c *Command) (hold.Selectors, error) {
	if c.Upstream != "" && !c.Future && !slices.ContainsFunc(o.hub.all(), func(s *session) bool { return s.key.plane == c.Upstream }) && o.hub.present()[c.Upstream] == nil {
		return nil, wrong("there is no upstream %q", c.Upstream)
	}
	one := hold.Selector{Upstream: c.Upstream, Scope: c.Scope}
	if len(c.Types) == 0 {
		return hold.Selectors{one}, nil
	}
	all := make(hold.Selectors, len(c.Types))
	for i, name := range c.Types {
		typeURL, short := keyer.TypeURL(name)
		if !short {
			typeURL = name
		}
		switch {
		case !short && !strings.Contains(name, "/"):
			return nil, wrong("%q is no type: expected a short name like cds, or a type URL", name)
		case payload.Secret(typeURL):
			return nil, wrong("secrets cannot be held: one that is revoked must go")
		}
		all[i] = one
		all[i].Type = typeURL
	}
	return all, nil
}

// present says whether there is what selectors name: scopes, and types, that no order in force is
// about and no session has, are typing mistakes. The scope of xdstp names can always come.
func (o operator) present(c *Command, selectors hold.Selectors) error {
	if c.Future {
		return nil
	}
	if c.Scope != nil && *c.Scope != xdstpScope {
		ordered := func(x hold.Order) bool { return x.Scope != nil && *x.Scope == *c.Scope }
		if len(o.selected(selectors)) == 0 && !slices.ContainsFunc(o.orders.now(), ordered) {
			return wrong("there is no scope %q now: /scopes lists them; with future (--future) the order waits for one", *c.Scope)
		}
	}
	for i := range selectors {
		if url := selectors[i].Type; url != "" && !o.knows(url) {
			return wrong("nobody knows the type %q: with future (--future) the order waits for it", url)
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

// hold freezes what a command selects.
func (o operator) hold(c *Command) (*Done, error) {
	if c.Guard || c.Generation != nil || !c.At.IsZero() {
		return nil, wrong("guard is for release only, and generation and at are for rollback")
	}
	now := time.Now()
	f := hold.Freeze{Since: now}
	if c.For != "" {
		d, err := time.ParseDuration(c.For)
		if err != nil || d <= 0 {
			return nil, wrong("for: expected a duration above zero, like 30m")
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
	done := &Done{Warnings: o.order(all)}
	for _, s := range o.selected(selectors) {
		s.store.Operator().Freeze(o.orders.of(s.key), nil)
		done.Scopes = append(done.Scopes, DoneScope{Upstream: s.key.plane, Scope: s.key.scope})
	}
	o.hub.snapshots.soon()
	return done, nil
}

// free releases what a command selects: what operators hold, and what the guard holds.
func (o operator) free(c *Command) (*Done, error) {
	if c.For != "" || c.Generation != nil || !c.At.IsZero() {
		return nil, wrong("for is for hold only, and generation and at are for rollback")
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
	done, all := new(Done), o.orders.now()
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
		done.Scopes = append(done.Scopes, DoneScope{Upstream: s.key.plane, Scope: s.key.scope, Released: released})
	}
	o.hub.snapshots.soon()
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

// HeldPage is /held.
type HeldPage struct {
	Orders []OrderView `json:"orders"` // of operators
	Held   []HeldView  `json:"held"`
}

// OrderView is an order of an operator that is in force. What is empty is about everything.
type OrderView struct {
	Upstream  string    `json:"upstream,omitempty"`
	Scope     *string   `json:"scope,omitempty"`
	TypeURL   string    `json:"type_url,omitempty"`
	Held      bool      `json:"held"` // false: an exception from an order before it
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Endpoints bool      `json:"endpoints_flow,omitempty"` // all but endpoints
}

// HeldView is what is held of one type in one scope.
type HeldView struct {
	Upstream string     `json:"upstream"`
	Scope    string     `json:"scope"`
	TypeURL  string     `json:"type_url"`
	Kind     string     `json:"kind"`
	Why      string     `json:"why"` // guard or operator
	Since    time.Time  `json:"since"`
	Until    time.Time  `json:"until,omitzero"` // absent: until an operator releases it
	Removed  int        `json:"removed"`        // names that clients would lose
	Changed  int        `json:"changed"`        // names that would change, or come
	Names    []HeldName `json:"names,omitempty"`
	More     int        `json:"more,omitempty"` // names that are not listed
}

// HeldName is a name of which clients have something else than the control plane sent last.
type HeldName struct {
	Name            string          `json:"name"`
	ReleasedVersion string          `json:"released_version,omitempty"`
	ReceivedVersion string          `json:"received_version,omitempty"`
	Released        json.RawMessage `json:"released,omitempty"` // absent: clients have none
	Received        json.RawMessage `json:"received,omitempty"` // absent: the control plane has none
	Error           string          `json:"error,omitempty"`    // with which the control plane removed it
}

// heldPage shows what is held of what selectors are about.
func (o operator) heldPage(selectors hold.Selectors, now time.Time) *HeldPage {
	page := &HeldPage{Orders: []OrderView{}, Held: []HeldView{}}
	for _, x := range o.orders.now() {
		if !x.Frozen || x.On(now) {
			page.Orders = append(page.Orders, viewOrder(&x))
		}
	}
	for _, s := range o.selected(selectors) {
		for _, x := range s.store.Operator().Held(true) {
			if selectors.Table(x.TypeURL) {
				page.Held = append(page.Held, s.viewHeld(&x))
			}
		}
	}
	return page
}

func viewOrder(x *hold.Order) OrderView {
	return OrderView{
		Upstream: x.Upstream, Scope: x.Scope, TypeURL: x.Type, Held: x.Frozen, Since: x.Since, Until: x.Until, Endpoints: x.Flows,
	}
}

func (s *session) viewHeld(x *cache.HeldType) HeldView {
	v := HeldView{
		Upstream: s.key.plane, Scope: s.key.scope, TypeURL: x.TypeURL, Kind: x.Kind, Why: string(x.Why), Since: x.Since, Until: x.Until,
		Removed: x.Lost, Changed: x.Changed,
	}
	for i := range x.Names {
		if i == maxListed {
			v.More = len(x.Names) - i
			break
		}
		d := &x.Names[i]
		n := HeldName{Name: d.Name}
		n.ReleasedVersion, n.Released = versionOf(d.Released), payload.JSON(d.Released, x.TypeURL, payload.BySize)
		n.ReceivedVersion, n.Received = versionOf(d.Received), payload.JSON(d.Received, x.TypeURL, payload.BySize)
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
