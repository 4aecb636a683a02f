package delivery

import (
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// Wait is what a client waits for that lacks something of a type.
type Wait string

// The waits, the first that is true of a client.
const (
	WaitsForNothing  Wait = ""
	WaitsForACK      Wait = "ack"      // the client has not acknowledged the last response
	WaitsForUpstream Wait = "upstream" // the control plane is away, and something is not known
	WaitsForName     Wait = "name"     // the control plane has not answered a name, a glob or "*"
	WaitsForSettle   Wait = "settle"   // the control plane may send more, without which a list would take something away
	WaitsForTurn     Wait = "turn"     // what is due goes out with the next responses, behind other types
	WaitsForRelease  Wait = "withheld" // the guard or an operator holds the control plane's last word
)

// maxListed bounds the names that an Insight lists, unless all are asked for.
const maxListed = 20

// Insight is how far a client is with a type. It is a copy.
type Insight struct {
	TypeURL  string
	Wildcard bool
	Names    int // that the client subscribes to
	Globs    int
	Waits    Wait
	Since    time.Time // when the oldest change came that the client was not sent; zero if it was sent all
	Open     Listed    // names, globs and "*" that the control plane has not answered
	Missing  Listed    // names that the client asks for, and that do not exist
	Rejected []Rejected
	Details  []Detail // if asked for
	Stores   []*cache.Store
}

// Listed is the first of some names, in order, and how many there are.
type Listed struct {
	Names []string
	Count int
}

func (l *Listed) add(name string) {
	l.Count++
	if i, found := slices.BinarySearch(l.Names, name); !found && i < maxListed {
		l.Names = slices.Insert(l.Names[:min(len(l.Names), maxListed-1)], i, strings.Clone(name))
	}
}

// Rejected is a resource that a client rejects, on the admin port.
type Rejected struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // that the client rejects
	Alone   bool   `json:"alone"`             // it stood alone in the response; else it is one of several, any of which may be the reason
}

// Detail is one name that a client subscribes to, or has as a member of a collection, on the admin port.
type Detail struct {
	Name    string    `json:"name"`
	By      string    `json:"by"`               // how the client subscribes to it: name, alias, *, or a glob
	Status  string    `json:"status"`           // in the words of the client status discovery service
	Sent    string    `json:"sent,omitempty"`   // the version that the client was sent last; "": an older one, or none
	Held    string    `json:"held,omitempty"`   // the version that it acknowledged; "": an older one, or none
	Cached  string    `json:"cached,omitempty"` // the version that the relay has for clients
	Changed time.Time `json:"changed,omitzero"`
	Error   string    `json:"error,omitempty"` // of the control plane

	Store *cache.Store `json:"-"` // where the name lives
}

// The statuses of a Detail.
const (
	StatusRequested = "REQUESTED"
	StatusTimeout   = "TIMEOUT"
	StatusMissing   = "DOES_NOT_EXIST"
	StatusAcked     = "ACKED"
	StatusNacked    = "NACKED"
	StatusStale     = "STALE" // the client has an older version, or has not acknowledged this one
	StatusError     = "RECEIVED_ERROR"
)

// Inspect says how far the client is with each type, in the order in which types are sent. acks are the
// acknowledgements that it owes. The names that details wants are listed; nil: none. One store is locked at a
// time. The stream's owner calls it.
func (s *Subscriber) Inspect(acks func(typeURL string) Acks, details Wanted) (all []Insight) {
	for _, c := range s.places {
		c.store.View(func() {
			for _, w := range c.types {
				i := slices.IndexFunc(all, func(x Insight) bool { return x.TypeURL == w.typeURL })
				if i < 0 {
					i = len(all)
					all = append(all, Insight{TypeURL: w.typeURL})
				}
				w.inspect(&all[i], acks(w.typeURL), details)
			}
		})
	}
	return all
}

// TypeWait is what a client waits for with a type.
type TypeWait struct {
	TypeURL string
	Wait    Wait
}

// Waits adds to all what the client waits for with each type, as Inspect says it, without a list of anything. The stream's
// owner calls it.
func (s *Subscriber) Waits(all []TypeWait, acks func(typeURL string) Acks) []TypeWait {
	for _, c := range s.places {
		c.store.View(func() {
			for _, w := range c.types {
				owed := acks(w.typeURL)
				wait := w.lack(owed == Acknowledged && w.anyOpen(), owed)
				if i := slices.IndexFunc(all, func(x TypeWait) bool { return x.TypeURL == w.typeURL }); i >= 0 {
					all[i].Wait = later(all[i].Wait, wait)
				} else {
					all = append(all, TypeWait{w.typeURL, wait})
				}
			}
		})
	}
	return all
}

// anyOpen reports whether the control plane has not answered a name, a glob or "*".
func (w *typeSub) anyOpen() bool {
	s := w.place.store
	settled := s.FindTable(w.typeURL, cache.ByName).Settled() && s.FindTable(w.typeURL, cache.WholeType).Settled()
	return !settled && w.subs.names.has(func(n *nameSub) bool { return n.entry.Open() }) || w.subs.hasFollower(func(f *follower) bool {
		c := f.Collection()
		return !c.Answered() && c.Len() == 0
	})
}

// inspect adds what is true of one type in one store. The caller holds the store's lock for reading.
func (w *typeSub) inspect(x *Insight, acks Acks, details Wanted) {
	x.Stores = append(x.Stores, w.place.store)
	open := x.Open.Count // in other stores
	x.Names, x.Globs, x.Wildcard = x.Names+w.subs.names.len(), x.Globs+len(w.subs.globs.all), x.Wildcard || w.subs.wildcard != nil
	for sub := range w.subs.names.all() {
		e := sub.entry
		if e.Open() {
			x.Open.add(sub.spelling)
			continue
		}
		if sub.dirty && !sub.heartbeat {
			x.Since = notify.Earlier(x.Since, e.ReceivedAt())
		}
		if !sub.exists() {
			x.Missing.add(sub.spelling)
		}
	}
	for f := range w.subs.each() {
		c := f.Collection()
		if !c.Answered() && c.Len() == 0 {
			x.Open.add(c.Key())
		}
		if e := f.NextChange(); e != nil {
			x.Since = notify.Earlier(x.Since, e.ReceivedAt())
		}
	}
	x.Waits = later(x.Waits, w.lack(x.Open.Count > open, acks))
	w.inspectRejections(x)
	if details != nil {
		w.inspectNames(x, acks, details)
	}
}

// order has the waits, the first that is true of a client first.
var order = []Wait{WaitsForACK, WaitsForUpstream, WaitsForName, WaitsForSettle, WaitsForTurn, WaitsForRelease, WaitsForNothing}

// later is the one of two waits that comes first in the list of them.
func later(a, b Wait) Wait {
	if slices.Index(order, a) < slices.Index(order, b) {
		return a
	}
	return b
}

// lack says what the client waits for here. open says that the control plane has not answered something.
func (w *typeSub) lack(open bool, acks Acks) Wait {
	if acks != Acknowledged {
		return WaitsForACK
	}
	due := w.list.relist || w.again.due() || w.additionsDue() || w.removalsDue()
	lacks := open || w.lacksHeld() || w.lacksAll()
	switch err, _ := w.place.store.Outage(); {
	case lacks && err != nil:
		return WaitsForUpstream
	case open:
		return WaitsForName
	case lacks:
		return WaitsForSettle
	case due:
		return WaitsForTurn
	}
	for _, k := range []cache.Kind{cache.ByName, cache.WholeType} {
		if t := w.place.store.FindTable(w.typeURL, k); t != nil && t.Withholds() {
			return WaitsForRelease
		}
	}
	return WaitsForNothing
}

// inspectRejections adds what the client rejects: what stood alone, what goes once more in parts, and the
// changes of a list.
func (w *typeSub) inspectRejections(x *Insight) {
	a := w.again
	if a == nil {
		return
	}
	from := len(x.Rejected)
	add := func(e *cache.Entry, alone bool) {
		if e.Resource() != nil && len(x.Rejected)-from < maxListed {
			x.Rejected = append(x.Rejected, Rejected{Name: strings.Clone(e.Name()), Version: strings.Clone(e.Version()), Alone: alone})
		}
	}
	for _, r := range a.alone {
		if r.current(w) {
			add(r.entry, true)
		}
	}
	for e, changed := range a.pending {
		if e.Changed() == changed {
			add(e, false)
		}
	}
	if a.list != nil {
		within := func(e *cache.Entry) bool {
			return a.list.content.Empty() || a.list.content.Has(e.Changed())
		}
		for sub := range w.subs.names.all() {
			if within(sub.entry) {
				add(sub.entry, false)
			}
		}
		for f := range w.subs.each() {
			for e := f.Collection().First(); e != nil; e = e.Next() {
				if within(e) && !f.hides(e) {
					add(e, false)
				}
			}
		}
		if len(x.Rejected)-from == 1 {
			x.Rejected[from].Alone = true
		}
	}
	slices.SortFunc(x.Rejected, func(a, b Rejected) int { return strings.Compare(a.Name, b.Name) })
}

// Wanted says of which names there are to be details.
type Wanted func(typeURL, name string) bool

// inspectNames adds the names that are wanted.
func (w *typeSub) inspectNames(x *Insight, acks Acks, wanted Wanted) {
	for _, sub := range w.subs.names.sorted() {
		if !wanted(w.typeURL, sub.spelling) {
			continue
		}
		by := "name"
		if sub.entry.Marks().Alias {
			by = "alias"
		}
		x.Details = append(x.Details, w.detail(sub.entry, sub.spelling, by, !sub.dirty || sub.heartbeat, sub.exists(), acks))
	}
	for f := range w.subs.cursors() {
		for e := f.Collection().First(); e != nil; e = e.Next() {
			if f.hides(e) || w.subs.byName(f, e.Key()) || !wanted(w.typeURL, f.name.of(e)) {
				continue
			}
			x.Details = append(x.Details, w.detail(e, f.name.of(e), f.Collection().Key(), f.Passed(e), e.Exists(), acks))
		}
	}
}

func (w *typeSub) detail(e *cache.Entry, name, by string, sent, exists bool, acks Acks) Detail {
	d := Detail{Name: strings.Clone(name), By: strings.Clone(by), Store: w.place.store}
	if err := e.Err(); err != nil {
		d.Error = err.Code.String() + ": " + err.Message
	}
	if exists && e.Resource() != nil {
		d.Cached, d.Changed = strings.Clone(e.Version()), e.ReceivedAt()
		if sent {
			d.Sent = d.Cached
		}
	}
	switch {
	case e.Open() && e.Marks().Overdue:
		d.Status = StatusTimeout
	case e.Open():
		d.Status = StatusRequested
	case !exists && e.Err() != nil:
		d.Status = StatusError
	case !exists:
		d.Status = StatusMissing
	case w.again.lacks(e, e.Changed()):
		d.Status = StatusNacked
	case w.again != nil && w.again.list != nil && w.again.list.content.Has(e.Changed()):
		d.Status = StatusNacked
	case !sent, acks != Acknowledged && e.Changed() > w.progress.settled:
		d.Status = StatusStale
	default:
		d.Status, d.Held = StatusAcked, d.Cached
	}
	return d
}
