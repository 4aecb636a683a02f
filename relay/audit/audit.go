package audit

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/quota"
)

// Decision is what became of an event.
type Decision string

// The decisions. WouldAllow and WouldDeny are those of rules that are not enforced.
const (
	Allow      Decision = "allow"
	Deny       Decision = "deny"
	WouldAllow Decision = "would allow"
	WouldDeny  Decision = "would deny"
)

// Event is a line. What is empty is not in it.
type Event struct {
	What     string // access, verify, scope, command …: what was decided about
	Identity string // who it is, for people
	Account  string // who it is, for the bound; "": the address is
	Address  string
	Listener string
	Node     string
	Type     string
	Name     string // of a resource, a command, a method or a page
	Scope    string // of a command
	Decision Decision
	Rule     string // that decided
	Reason   string
}

const (
	// maxKnown and maxUnknown bound the identities and the addresses that are counted apart in a minute.
	maxKnown, maxUnknown = 1 << 14, 1 << 10
	// maxQueue bounds the lines that wait while they cannot be written, in bytes.
	maxQueue = 1 << 20
	// flush is how long Close waits for them.
	flush = time.Second
)

// Log writes events. Its methods may be called from any goroutine and never block.
type Log struct {
	lines          *logs.Writer // nil: the output does not block
	file           *file        // nil: it is none
	known, unknown *logs.Limit
	given          *logs.Limit  // of the known, for what they are allowed: who is refused again and again does not hide it
	commands       slog.Handler // without a bound
}

// New writes to the file at a path, or to an output that does not block if the path is "". perMinute bounds the lines of one
// identity; 0: no bound. lost is called for each line that is left out, or that the file does not take. Close must be called.
func New(path string, to io.Writer, perMinute int, lost func()) (*Log, error) {
	l := new(Log)
	if path != "" {
		l.file = &file{path: path, lost: lost}
		if err := l.file.open(); err != nil {
			return nil, fmt.Errorf("audit.to: %w", err)
		}
		l.lines = logs.NewWriter(l.file, maxQueue)
		l.lines.Tell(func(missing uint64) {
			for range missing {
				lost()
			}
		})
		to = l.lines
	}
	handler := slog.NewJSONHandler(to, &slog.HandlerOptions{ReplaceAttr: rename})
	leftOut := func(string) { lost() }
	l.known, l.unknown = logs.NewLimit(handler, perMinute, leftOut), logs.NewLimit(handler, perMinute, leftOut)
	l.given = logs.NewLimit(handler, perMinute, leftOut)
	l.known.Most, l.given.Most, l.unknown.Most = maxKnown, maxKnown, maxUnknown
	l.commands = l.known.Unlimited()
	return l, nil
}

// rename gives the keys of a line the names of this package.
func rename(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.MessageKey:
		a.Key = "event"
	case a.Key == slog.LevelKey:
		return slog.Attr{}
	case a.Key == "message": // of lines that are left out
		a.Key = "of"
	}
	return a
}

// SetPerMinute changes the bound of one identity.
func (l *Log) SetPerMinute(n int) {
	if l != nil {
		l.known.Set(n)
		l.given.Set(n)
		l.unknown.Set(n)
	}
}

// Close writes what waits.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.known.Close()
	l.given.Close()
	l.unknown.Close()
	if l.lines != nil && l.lines.Close(flush) { // else the file hangs, and so would closing it
		l.file.close()
	}
}

// Note writes what was decided about a client.
func (l *Log) Note(e *Event) {
	if l == nil {
		return
	}
	switch who := cmp.Or(e.Account, e.Identity); {
	case who != "" && e.Decision == Allow:
		write(l.given.For(who), e)
	case who != "":
		write(l.known.For(who), e)
	default:
		at := e.Address
		if prefix := quota.AddressOf(at); prefix.IsValid() {
			at = prefix.String()
		}
		write(l.unknown.For(at), e)
	}
}

// Command writes what an operator did.
func (l *Log) Command(e *Event) {
	if l != nil {
		write(l.commands, e)
	}
}

func write(to slog.Handler, e *Event) {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, e.What, 0)
	for _, x := range [...]struct{ key, value string }{
		{"identity", e.Identity}, {"address", e.Address}, {"listener", e.Listener}, {"node", e.Node}, {"type", e.Type}, {"name", e.Name}, {"scope", e.Scope},
		{"decision", string(e.Decision)}, {"rule", e.Rule}, {"reason", e.Reason},
	} {
		if x.value != "" {
			r.AddAttrs(slog.String(x.key, x.value))
		}
	}
	_ = to.Handle(context.Background(), r) // an output that fails counts its lost lines
}
