package upstream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// maxWarnings is how many warnings a session writes in a warningPause about types,
	// which are the clients' choice. Further ones are logged at the debug level.
	maxWarnings  = 10
	warningPause = time.Minute
	// maxListed bounds the types that one line in the log lists.
	maxListed = 8
)

// warnings counts those that a session wrote about types. It belongs to the session's
// owner.
type warnings struct {
	begun time.Time
	said  int // since begun
}

// level is that of the next warning.
func (w *warnings) level(now time.Time) slog.Level {
	if now.Sub(w.begun) >= warningPause {
		*w = warnings{begun: now}
	}
	if w.said >= maxWarnings {
		return slog.LevelDebug
	}
	w.said++
	return slog.LevelWarn
}

// summary gives the level of one line about types, of which there is one at least, and its
// text. It sorts them.
func (r *report) summary(types []string) (slog.Level, slog.Attr) {
	slices.Sort(types)
	// A group without a name is as if its attributes stood by themselves.
	which := slog.Group("", "types", types[:min(len(types), maxListed)], "count", len(types))
	return r.warnings.level(time.Now()), which
}

// available leaves out of the streams that are wanted those of types that have no service
// of their own, and tells of these once for as long as they are wanted. There may be
// thousands, so that sessions have no lines for them.
func (r *report) available(wanted []wire.StreamID, has func(wire.StreamID) bool) []wire.StreamID {
	lacking := make(map[string]struct{})
	left := slices.DeleteFunc(wanted, func(id wire.StreamID) bool {
		if has(id) {
			return false
		}
		lacking[id.TypeURL] = struct{}{}
		return true
	})
	var added []string
	for typeURL := range lacking {
		if _, told := r.lacking[typeURL]; !told {
			added = append(added, typeURL)
			r.obs.TypeUnavailable(typeURL)
		}
	}
	if len(added) > 0 || len(lacking) != len(r.lacking) {
		r.noteUnavailable(lacking)
	}
	if len(added) > 0 {
		level, which := r.summary(added)
		r.log.Log(context.Background(), level, "types have no service of their own and cannot be asked for", which)
	}
	return left
}

// noteUnavailable has Status say which types cannot be asked for. The set must not change
// afterwards.
func (r *report) noteUnavailable(types map[string]struct{}) {
	r.statusMu.Lock()
	defer r.statusMu.Unlock()
	r.lacking = types
}

// noteQuiet has Status say that the server does not answer a type's wildcard, or that it does.
func (r *report) noteQuiet(typeURL string, quiet bool) {
	r.statusMu.Lock()
	defer r.statusMu.Unlock()
	if !quiet {
		delete(r.quiet, typeURL)
		return
	}
	if r.quiet == nil {
		r.quiet = make(map[string]struct{})
	}
	r.quiet[typeURL] = struct{}{}
}

// noteRefused has Status say why the server refuses a type, or with no reason that it does not any more. The stream is
// that of the type, or stands for those of all types.
func (r *report) noteRefused(stream wire.StreamID, reason string) {
	r.statusMu.Lock()
	defer r.statusMu.Unlock()
	switch {
	case reason == "":
		delete(r.refused, stream)
	case r.refused == nil:
		r.refused = map[wire.StreamID]string{stream: reason}
	default:
		r.refused[stream] = reason
	}
}

// sortedKeys are the keys of a set, nil if there is none.
func sortedKeys[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }
