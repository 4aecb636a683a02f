package downstream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// rejectionPause is how long the log of rejections counts what it said, from the first
	// one on.
	rejectionPause = time.Minute
	// loudRejections is how many rejections of one client, of one type, are worth a warning
	// each in that time, and loudAltogether those of one type of all clients: a fleet may
	// reject the same thing. A client may go on for ever; its rejections are counted, and
	// the last is shown on the admin port (ACK-7).
	loudRejections = 8
	loudAltogether = 256
	// loudTypes is how many types have a count of their own in that time. Types are the
	// clients' choice (LIM-4): the others have one count together.
	loudTypes  = 64
	otherTypes = "others"
)

// rejectionLog says which of the clients' rejections are worth a warning each, and tells of
// the others in one line for each type and minute.
type rejectionLog struct {
	log *slog.Logger

	mu    sync.Mutex           // guards what follows
	types map[string]*loudness // by type URL, of the minute that runs
	timer *time.Timer          // ends the minute; nil: none runs
}

// loudness is what the log has of one type in a minute.
type loudness struct {
	said    int         // rejections of all clients that were worth a warning each
	clients map[any]int // by client, the same; one more than loudRejections: the log lacks some
	left    int         // rejections that the log lacks
	quiet   int         // clients of which it lacks some, as far as they are told apart
}

func newRejectionLog(log *slog.Logger) *rejectionLog { return &rejectionLog{log: log} }

// level is the level at which a client's rejection is logged. Clients are told apart by who.
func (r *rejectionLog) level(typeURL string, who any) slog.Level {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil {
		r.types = make(map[string]*loudness)
		r.timer = time.AfterFunc(rejectionPause, r.end)
	}
	if r.types[typeURL] == nil && len(r.types) >= loudTypes {
		typeURL = otherTypes
	}
	l := r.types[typeURL]
	if l == nil {
		l = &loudness{clients: make(map[any]int)}
		r.types[typeURL] = l
	}
	return l.next(who)
}

// next counts a rejection.
func (l *loudness) next(who any) slog.Level {
	n := l.clients[who]
	if n < loudRejections && l.said < loudAltogether {
		l.clients[who] = n + 1
		l.said++
		return slog.LevelWarn
	}
	if _, known := l.clients[who]; n <= loudRejections && (known || len(l.clients) < maxPollers) {
		l.clients[who] = loudRejections + 1
		l.quiet++
	}
	l.left++
	return slog.LevelDebug
}

// end ends the minute, and says what the log does not have of it.
func (r *rejectionLog) end() {
	r.mu.Lock()
	types := r.types
	if r.timer != nil {
		r.timer.Stop()
	}
	r.types, r.timer = nil, nil
	r.mu.Unlock()
	for _, typeURL := range slices.Sorted(maps.Keys(types)) {
		if l := types[typeURL]; l.left > 0 {
			r.log.Log(context.Background(), slog.LevelWarn, "clients rejected more responses than the log has",
				"type", typeURL, "left_out", l.left, "clients", l.quiet, "within", rejectionPause)
		}
	}
}
