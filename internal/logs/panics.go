package logs

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/retry"
)

// Part is the part of the relay that a panic ended. It is a metric's label.
type Part string

// The parts.
const (
	PartClient      Part = "client"       // a client's stream or poll
	PartResponse    Part = "response"     // the taking of a control plane's response, which is rejected
	PartSession     Part = "session"      // the owner of a session, which begins anew
	PartUpstream    Part = "upstream"     // a stream to a control plane, or an attempt to reach one
	PartStore       Part = "store"        // a store's own work, such as its end
	PartLoadReports Part = "load_reports" // a stream of load reports, of either side
	PartResolver    Part = "resolver"     // the work on one event of the resolver
	PartPrefetcher  Part = "prefetcher"   // a turn of the prefetcher
	PartBackground  Part = "background"   // a turn of something else: eviction, outages, files, timers
	PartAdmin       Part = "admin"        // a request on the admin port, or a reload
)

// Parts lists them.
func Parts() []Part {
	return []Part{PartClient, PartResponse, PartSession, PartUpstream, PartStore, PartLoadReports, PartResolver, PartPrefetcher, PartBackground, PartAdmin}
}

// PanicObserver is told of each panic, from any goroutine.
type PanicObserver interface{ Panicked(part Part) }

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
	observer PanicObserver
	places   Once[string] // whose stack was logged
}

// NewPanics returns a Panics that tells log and observer, either of which may be nil.
func NewPanics(log *slog.Logger, observer PanicObserver) *Panics {
	return &Panics{log: log, observer: observer, places: Once[string]{Most: maxPlaces}}
}

// PanicError is what a panic becomes. Its text has no part of the panic's value, so that a client or a
// control plane may be told.
type PanicError struct {
	Part  Part
	Place string // file and line that panicked
}

func (e *PanicError) Error() string { return "the relay failed at " + e.Place }

// Catch ends a panic, and calls then with what it became, if then is not nil. It must be deferred
// itself. It returns having done nothing if there is no panic.
func (p *Panics) Catch(part Part, then func(*PanicError)) {
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

// Do calls f. The error is an *PanicError if f panics.
func (p *Panics) Do(part Part, f func()) (err error) {
	defer p.Catch(part, func(e *PanicError) { err = e })
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
func (p *Panics) Note(part Part, v any) *PanicError {
	m, ok := v.(*moved)
	if !ok {
		m = &moved{v, place(), nil}
	}
	err := &PanicError{Part: part, Place: m.place}
	if p.observer != nil {
		p.observer.Panicked(part)
	}
	if p.log != nil && p.places.First(err.Place) {
		if m.stack == nil {
			m.stack = debug.Stack()
		}
		p.log.Error("the relay caught a panic: what caused it ends, everything else goes on", "part", part, "place", err.Place,
			"panic", Head(fmt.Sprint(m.value), maxValue), "stack", Head(string(m.stack), maxStack))
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
