// Package contain keeps a panic to what caused it (SUR-6): it counts the panic, logs it with its stack
// once for each place in the code, and makes an error of it. What ends because of a panic is its
// caller's to decide. The package stops no program that has run out of memory or stack, or that the
// runtime found in a deadlock or with a map that two goroutines write: nothing can.
package contain

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/excerpt"
	"github.com/xdsrelay/xdsrelay/internal/lograte"
	"github.com/xdsrelay/xdsrelay/internal/retry"
)

// Part is the part of the relay that a panic ended. It is a metric's label.
type Part string

// The parts.
const (
	Client      Part = "client"       // a client's stream or poll
	Response    Part = "response"     // the taking of a control plane's response, which is rejected
	Session     Part = "session"      // the owner of a session, which begins anew
	Upstream    Part = "upstream"     // a stream to a control plane, or an attempt to reach one
	Store       Part = "store"        // a store's own work, such as its end
	LoadReports Part = "load_reports" // a stream of load reports, of either side
	Resolver    Part = "resolver"     // the work on one event of the resolver
	Prefetcher  Part = "prefetcher"   // a turn of the prefetcher
	Background  Part = "background"   // a turn of something else: eviction, outages, files, timers
	Admin       Part = "admin"        // a request on the admin port, or a reload
)

// Parts lists them.
func Parts() []Part {
	return []Part{Client, Response, Session, Upstream, Store, LoadReports, Resolver, Prefetcher, Background, Admin}
}

// Observer is told of each panic, from any goroutine.
type Observer interface{ Panicked(part Part) }

// Bounds of what is logged, and of how many places are remembered.
const (
	maxValue  = 512
	maxStack  = 16 << 10
	maxPlaces = 256
)

// Panics catches panics. The methods of a nil Panics catch none, so that a test sees them. All
// methods may be called from any goroutine.
type Panics struct {
	log      *slog.Logger
	observer Observer
	places   lograte.Once[string] // whose stack was logged
}

// New returns a Panics that tells log and observer, either of which may be nil.
func New(log *slog.Logger, observer Observer) *Panics {
	return &Panics{log: log, observer: observer, places: lograte.Once[string]{Most: maxPlaces}}
}

// Error is what a panic becomes. Its text has no part of the panic's value, so that a client or a
// control plane may be told.
type Error struct {
	Part  Part
	Place string // file and line that panicked
}

func (e *Error) Error() string { return "the relay failed at " + e.Place }

// Catch ends a panic, and calls then with what it became, if then is not nil. It must be deferred
// itself. It returns having done nothing if there is no panic.
func (p *Panics) Catch(part Part, then func(*Error)) {
	if p == nil {
		return
	}
	v := recover() //nolint:revive // because Catch itself is deferred
	if v == nil {
		return
	}
	if err := p.Note(part, v); then != nil {
		then(err)
	}
}

// Do calls f. The error is an *Error if f panics.
func (p *Panics) Do(part Part, f func()) (err error) {
	defer p.Catch(part, func(e *Error) { err = e })
	f()
	return nil
}

// Func returns f as one that may be called by a timer: a panic in it is caught.
func (p *Panics) Func(part Part, f func()) func() {
	return func() { _ = p.Do(part, f) } // it is counted and logged
}

// again is the pause before a loop that panicked begins again. It grows to againMost.
const (
	again     = time.Second
	againMost = time.Minute
)

// Loop calls f, which is to return when ctx ends, and calls it again after a pause if it panics.
func (p *Panics) Loop(ctx context.Context, part Part, f func()) {
	for pause := again; p.Do(part, f) != nil; pause = min(2*pause, againMost) {
		if !retry.Sleep(ctx, pause) {
			return
		}
	}
}

// Note counts and logs a panic whose value a deferred function got from recover. It must be called
// by that function, or what that calls, because it looks at the stack.
func (p *Panics) Note(part Part, v any) *Error {
	m, ok := v.(*moved)
	if !ok {
		m = &moved{v, place(), nil}
	}
	err := &Error{Part: part, Place: m.place}
	if p.observer != nil {
		p.observer.Panicked(part)
	}
	if p.log != nil && p.places.First(err.Place) {
		if m.stack == nil {
			m.stack = debug.Stack()
		}
		p.log.Error("the relay caught a panic: what caused it ends, everything else goes on", "part", part, "place", err.Place,
			"panic", excerpt.Head(fmt.Sprint(m.value), maxValue), "stack", excerpt.Head(string(m.stack), maxStack))
	}
	return err
}

// place is where the innermost panic began: the first function below the runtime's that panic.
func place() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s:%d", path.Join(path.Base(path.Dir(f.File)), path.Base(f.File)), f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
