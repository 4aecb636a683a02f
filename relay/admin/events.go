package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Event is what operators did that may change what clients get: a reload of the configuration, or a command.
type Event struct {
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"` // reload, reload failed, hold, release or rollback
	Text     string    `json:"text"` // which keys changed, or what the command was about and did
	Operator string    `json:"operator,omitempty"`
}

// mostEvents is how many events are remembered.
const mostEvents = 100

// Events remembers the last events. The zero value is ready. Its methods may be called from any goroutine.
type Events struct {
	mu  sync.Mutex
	all []Event // the last one last
}

// Add adds an event. A failed reload that is read again and again is one.
func (e *Events) Add(x Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.all); n > 0 && x.Kind == string(ReloadFailed) && e.all[n-1].Kind == x.Kind && e.all[n-1].Text == x.Text {
		return
	}
	if len(e.all) == mostEvents {
		e.all = slices.Delete(e.all, 0, 1)
	}
	e.all = append(e.all, x)
}

// Since lists the events since a time, the last first. Without any the list is empty, and not nil: it is a list in JSON, too.
func (e *Events) Since(at time.Time) []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := slices.DeleteFunc(append([]Event{}, e.all...), func(x Event) bool { return x.At.Before(at) })
	slices.Reverse(all)
	return all
}

// Reloaded is that a configuration is in force.
func Reloaded(changed, waiting []string, hash string) Event {
	text := "hash " + hash + ": " + cmp.Or(strings.Join(changed, "; "), "nothing changed")
	if len(waiting) > 0 {
		text += "; after a restart: " + strings.Join(waiting, "; ")
	}
	return Event{At: time.Now(), Kind: "reload", Text: text}
}

// eventOf is a command that was carried out.
func eventOf(name, operator string, c *Command, done *Done) Event {
	parts := []string{"upstream " + cmp.Or(c.Upstream, "all"), "scope " + ScopeText(c.Scope), "type " + cmp.Or(strings.Join(c.Types, " "), "all")}
	for _, x := range c.options() {
		parts = append(parts, fmt.Sprintf("%v %v", x...))
	}
	released, changed, failed := done.Totals()
	for _, n := range []struct {
		names string
		of    int
	}{{"scopes", len(done.Scopes)}, {"released names", released}, {"names that changed back", changed}, {"scopes where it failed", failed}} {
		if n.of > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", n.names, n.of))
		}
	}
	return Event{At: time.Now(), Kind: name, Text: strings.Join(parts, ", "), Operator: operator}
}
