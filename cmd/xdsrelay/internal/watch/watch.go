package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Format is what the output looks like.
type Format string

// The formats.
const (
	Text Format = "text" // lines for people
	JSON Format = "json" // one object per line
)

// Options say what is watched and how it is shown.
type Options struct {
	Target        string  // the server's address, to be shown
	APIType       APIType // AggregatedDeltaGRPC without
	Subscriptions []Subscription
	Node          *corev3.Node
	Format        Format
	Color         bool // with Text
	Payload       bool // show what the resources hold, secrets aside

	// Once ends the watching when everything was answered and then nothing came
	// for Quiet.
	Once    bool
	Timeout time.Duration // ends the watching after it; 0: never
	Backoff xdsclient.Backoff

	// Hint gives the remedy for a lost stream, "" if it knows none. With Text it is shown when it
	// changes; nil: none.
	Hint func(error) string
}

// Quiet is how long nothing may come for a single look to be over: a large
// collection comes in several responses, of which none says that it is the last.
const Quiet = 500 * time.Millisecond

// errComplete ends a single look that saw everything.
var errComplete = errors.New("everything was answered")

// Run watches until ctx or the Options end it, and writes to out what changes.
// When a stream is lost it comes back for more, unless Once is set or the reason
// is one that stays. Being ended by ctx or by Timeout is no error unless Once is
// not complete then: that is ctx's error, or a *[TimeoutError]. A type that the
// variant cannot ask for is a *[xdsclient.UnservedError], before anything else.
func Run(ctx context.Context, t Transport, out io.Writer, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watcher{options: o, out: out, stop: cancel, open: make(map[string]bool)}
	w.format = w.text
	if o.Format == JSON {
		w.format = w.json
	}
	client := t.Client(o.APIType, xdsclient.Options{Node: o.Node, OnOpen: w.opened, OnResponse: w.response})
	for _, sub := range o.Subscriptions {
		if err := client.Serves(sub.TypeURL); err != nil {
			return err
		}
		client.Subscribe(sub.TypeURL, sub.Names...)
	}
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel(nil)
	if o.Once {
		background.Go(func() { w.complete(ctx, client) })
	}
	follow := ctx
	if o.Timeout > 0 {
		limited, done := context.WithTimeoutCause(ctx, o.Timeout, &TimeoutError{After: o.Timeout})
		defer done()
		follow = limited
	}
	err := client.Follow(follow, o.Backoff, w.lost)
	late, isLate := errors.AsType[*TimeoutError](err)
	switch {
	case w.err != nil: // nobody writes any more
		return fmt.Errorf("writing the output: %w", w.err)
	case isLate && o.Once:
		late.Missing = client.Unanswered()
		if len(late.Missing) == 0 {
			return nil // all that was missing was the quiet
		}
		return late
	case isLate, errors.Is(err, errComplete), ctx.Err() != nil && !o.Once:
		return nil
	}
	return err
}

// TimeoutError says what had not been answered when the time was up.
type TimeoutError struct {
	After   time.Duration
	Missing []string // type URLs
}

func (e *TimeoutError) Error() string {
	short := make([]string, len(e.Missing))
	for i, url := range e.Missing {
		short[i] = keyer.ShortName(url)
	}
	return fmt.Sprintf("no complete answer for %s within %v", strings.Join(short, ", "), e.After)
}

// watcher prints what one client sees. Its methods are called by the goroutines
// that read, one for each stream, and complete by one of its own.
type watcher struct {
	// immutable after Run has made it
	options Options
	format  func(event) []byte
	stop    context.CancelCauseFunc

	responses atomic.Int64

	// guarded by mu
	mu   sync.Mutex
	out  io.Writer
	open map[string]bool // there is a stream for the type; "": for all
	err  error           // of writing

	hinted string // the last hint
}

// event is something to be printed: a stream opened, a stream lost, or a response.
type event struct {
	at       time.Time
	typeURL  string // of the stream, "" if it is for all types
	response *xdsclient.Response
	lost     error
	open     bool          // what was lost was open
	delay    time.Duration // before the next stream
}

// printLocked writes an event. The lock keeps the output of streams apart; a
// reader of the output that does not keep up holds all of them, as it should.
func (w *watcher) printLocked(e event) {
	if w.err != nil {
		return
	}
	e.at = time.Now()
	if _, w.err = w.out.Write(w.format(e)); w.err != nil {
		w.stop(w.err)
	}
}

func (w *watcher) opened(typeURL string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[typeURL] = true
	w.printLocked(event{typeURL: typeURL})
}

// response accepts everything that can be accepted: a watcher must not keep a
// server from carrying on.
func (w *watcher) response(r *xdsclient.Response) error {
	w.responses.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.printLocked(event{response: r})
	return nil
}

// lost tells of the end of a stream, or gives up.
func (w *watcher) lost(reason error, delay time.Duration) error {
	if w.options.Once || permanent(reason) {
		return reason
	}
	e := event{lost: reason, delay: delay}
	if of, ok := errors.AsType[*xdsclient.StreamError](reason); ok {
		e.typeURL, e.lost = of.TypeURL, of.Err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.open = w.open[e.typeURL]
	w.open[e.typeURL] = false
	w.printLocked(e)
	return nil
}

// repeats tells whether a change need not be shown by itself: state-of-the-world
// responses repeat what they have to, and then it is only counted.
func (w *watcher) repeats(ch *xdsclient.Change) bool {
	return ch.Kind == xdsclient.Unchanged && !w.options.APIType.delta()
}

// permanent tells of errors that the next stream would meet too.
func permanent(err error) bool {
	switch status.Code(err) {
	case codes.Unimplemented, codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied:
		return true
	default:
		return false
	}
}

// complete ends the watching once everything was answered and it is quiet.
func (w *watcher) complete(ctx context.Context, client *xdsclient.Client) {
	answered := func(c *xdsclient.Client) bool { return len(c.Unanswered()) == 0 }
	if client.Wait(ctx, answered) != nil {
		return
	}
	for ctx.Err() == nil {
		seen := w.responses.Load()
		quiet, cancel := context.WithTimeout(ctx, Quiet)
		err := client.Wait(quiet, func(*xdsclient.Client) bool { return w.responses.Load() != seen })
		cancel()
		if err != nil && ctx.Err() == nil {
			w.stop(errComplete)
		}
	}
}
