package hold

import (
	"slices"
	"time"
)

// Freeze says that an operator holds all that a server says of a table. The zero value holds nothing.
type Freeze struct {
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"` // zero: until an operator releases it
}

// On reports whether the table is frozen at a time.
func (f *Freeze) On(now time.Time) bool {
	return !f.Since.IsZero() && (f.Until.IsZero() || now.Before(f.Until))
}

// Selector says which tables an order is about.
type Selector struct {
	Upstream string  `json:"upstream,omitempty"` // "": all
	Scope    *string `json:"scope,omitempty"`    // nil: all. "" is the scope of xdstp names
	Type     string  `json:"type,omitempty"`     // a type URL; "": all
}

// Store reports whether it is about tables of a store.
func (s *Selector) Store(upstream, scope string) bool {
	return (s.Upstream == "" || s.Upstream == upstream) && (s.Scope == nil || *s.Scope == scope)
}

// Table reports whether it is about a table of a store that it is about.
func (s *Selector) Table(typeURL string) bool { return s.Type == "" || s.Type == typeURL }

// Selectors are selectors of which any may be about a table.
type Selectors []Selector

// Store reports whether one of them is about tables of a store.
func (all Selectors) Store(upstream, scope string) bool {
	return slices.ContainsFunc(all, func(s Selector) bool { return s.Store(upstream, scope) })
}

// Table reports whether one of them is about a table of a store that they are about.
func (all Selectors) Table(typeURL string) bool {
	return slices.ContainsFunc(all, func(s Selector) bool { return s.Table(typeURL) })
}

// covers reports whether it is about all tables that another selector is about.
func (s *Selector) covers(o *Selector) bool {
	return (s.Upstream == "" || s.Upstream == o.Upstream) && (s.Type == "" || s.Type == o.Type) &&
		(s.Scope == nil || o.Scope != nil && *s.Scope == *o.Scope)
}

// Order is an operator's word on tables: they are frozen, or not any longer. As JSON it is in the file of
// orders.
type Order struct {
	Selector
	Freeze

	Frozen bool `json:"frozen"` // else they are released
	// Flows says that endpoints are not frozen. A rollback leaves them as they are: the endpoints
	// of before may be gone.
	Flows bool `json:"endpoints_flow,omitempty"`
}

// Orders are the orders in force, the oldest first. The last one that is about a table counts. A value
// is not changed: With returns another one.
type Orders []Order

// With adds an order. Orders that have ended, or that it replaces as a whole, are left out. So there
// are never more than there are selectors in use.
func (o Orders) With(x Order, now time.Time) Orders {
	var all Orders
	for i := range o {
		replaced := x.covers(&o[i].Selector) && (!x.Flows || o[i].Flows)
		if !replaced && (!o[i].Frozen || o[i].On(now)) {
			all = append(all, o[i])
		}
	}
	if !x.Frozen && !slices.ContainsFunc(all, func(x Order) bool { return x.Frozen }) {
		return nil
	}
	return append(all, x)
}

// Of is the freeze of a table.
func (o Orders) Of(upstream, scope, typeURL string, endpoints bool, now time.Time) Freeze {
	for i := range slices.Backward(o) {
		x := &o[i]
		if !x.Store(upstream, scope) || !x.Table(typeURL) || x.Flows && endpoints || x.Frozen && !x.On(now) {
			continue
		}
		if x.Frozen {
			return x.Freeze
		}
		return Freeze{}
	}
	return Freeze{}
}
