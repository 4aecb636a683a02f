package hold

import "time"

// Burst is the time within which losses of several responses count together (SUR-3).
const Burst = 10 * time.Second

// Guard says which losses are held. The zero value holds none.
type Guard struct {
	// Share is the part of the released resources, from 0 to 1, whose loss is held; 0: none is.
	Share float64
	// AtLeast is the number of resources below which a loss passes.
	AtLeast int
	// Hold is how long a loss is held.
	Hold time.Duration
	// Small is how long the loss of all Listeners and all Clusters is held, where there are fewer than AtLeast; 0: it
	// passes.
	Small time.Duration
	// WentBack says that content that goes back is reported: of AtLeast resources of a type (SUR-7).
	WentBack bool
	// Passes reports whether the losses of a type pass. Nil: none do. It is called under the
	// store's lock.
	Passes func(typeURL string) bool
	// BehindRelays says that it guards also where the server is a relay, which has a guard
	// of its own.
	BehindRelays bool
}

// On reports whether the guard holds anything.
func (g *Guard) On() bool { return g.Share > 0 && g.Hold > 0 }

// Trips reports whether the loss of so many resources, less those that came instead, is held. of is
// the number of resources that were released before it.
func (g *Guard) Trips(lost, of int) bool { return lost >= g.AtLeast && g.Most(lost, of) }

// Most reports whether the loss is of the share at least, whatever the number. With a held loss of
// another type it is held too: a control plane that lost its Clusters loses its one Listener as well.
func (g *Guard) Most(lost, of int) bool {
	return g.On() && lost > 0 && float64(lost) >= g.Share*float64(of)
}

// Waits reports whether the loss of most of a type waits for those of other types: the type has too
// few resources to be held by itself.
func (g *Guard) Waits(lost, of int) bool { return of < g.AtLeast && g.Most(lost, of) }

// Window adds up what a table loses and gains in a short time. The zero value is a window that has
// ended.
type Window struct {
	until time.Time
	of    int // released when it began
	lost  int // less what was gained
}

// Open reports whether the window goes on.
func (w *Window) Open(now time.Time) bool { return now.Before(w.until) }

// Emptied returns how many were released when the window began, if all of them are lost and nothing was gained; else 0.
func (w *Window) Emptied(now time.Time) int {
	if !w.Open(now) || w.lost < w.of {
		return 0
	}
	return w.of
}

// Add adds a response, and returns the loss of the window and of how many. A loss begins a window
// if there is none. It ends after Burst, or at until if that is later: the first state after a
// connection counts as a whole.
func (w *Window) Add(lost, gained, of int, now, until time.Time) (loss, before int) {
	if !w.Open(now) {
		*w = Window{until: now.Add(Burst), of: of}
		if until.After(w.until) {
			w.until = until
		}
	}
	w.lost += lost - gained
	return w.lost, w.of
}

// Clock is when all that a store holds is released: at one time, or a Cluster would go before the
// Routes to it. The zero value is a clock that does not run.
type Clock struct {
	began, last time.Time // of the first and the last loss
	until       time.Time
	hold        time.Duration // of the last loss
}

// Runs reports whether something is held.
func (c *Clock) Runs() bool { return !c.until.IsZero() }

// Since is when the first loss was held; zero if nothing is held.
func (c *Clock) Since() time.Time { return c.began }

// Until is when it is released; zero if nothing is held.
func (c *Clock) Until() time.Time { return c.until }

// Hold is called when a table's loss is held for a time. Losses of other tables are held as long,
// and what was held before them with them, at most twice as long in all.
func (c *Clock) Hold(now time.Time, hold time.Duration) {
	if !c.Runs() {
		c.began = now
	}
	c.last, c.hold = now, hold
	if at := now.Add(hold); at.After(c.until) {
		c.until = at
	}
	if at := c.began.Add(2 * hold); at.Before(c.until) {
		c.until = at
	}
}

// Wait is called when a loss waits for those of others (Guard.Waits). Where something is held already,
// it waits as long as that is held.
func (c *Clock) Wait(now, until time.Time) {
	if !c.Runs() {
		c.began, c.until = now, until
	}
}

// Waits reports whether nothing is held but what waits for the losses of others.
func (c *Clock) Waits() bool { return c.Runs() && c.last.IsZero() }

// For is how long the last loss is held.
func (c *Clock) For() time.Duration { return c.hold }

// Lately reports whether a loss was held just now: others belong to it.
func (c *Clock) Lately(now time.Time) bool { return c.Runs() && now.Sub(c.last) <= Burst }
