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
	// rejectionPause is how long the log counts rejections, from the first one.
	rejectionPause = time.Minute
	// loudRejections is how many rejections of one client and type the log has in that time.
	// loudAltogether is how many of one type it has of all clients: a fleet may reject the
	// same resource. A client may reject for ever. The relay counts its rejections, and the
	// admin port shows the last (ACK-7).
	loudRejections = 8
	loudAltogether = 256
	// loudTypes is how many types have their own count in that time. Clients may make up
	// types (LIM-4): all others have one count together.
	loudTypes  = 64
	otherTypes = "others"
)

// rejectionLog decides which rejections the log has as warnings. Of the others it logs one line for
// each type and minute.
type rejectionLog struct {
	log *slog.Logger

	mu    sync.Mutex           // guards what follows
	types map[string]*loudness // by type URL, of the present minute
	timer *time.Timer          // ends the minute; nil: none runs
}

// loudness counts the rejections of one type in a minute.
type loudness struct {
	logged  int         // warnings, of all clients
	clients map[any]int // warnings, by client; one more than loudRejections: the log lacks rejections of the client
	left    int         // rejections that the log lacks
	quiet   int         // clients with such rejections, as far as clients has them
}

func newRejectionLog(log *slog.Logger) *rejectionLog { return &rejectionLog{log: log} }

// level counts a rejection and returns the level of its line in the log.
func (r *rejectionLog) level(typeURL string, client any) slog.Level {
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
	return l.next(client)
}

// next counts a rejection.
func (l *loudness) next(client any) slog.Level {
	n := l.clients[client]
	if n < loudRejections && l.logged < loudAltogether {
		l.clients[client] = n + 1
		l.logged++
		return slog.LevelWarn
	}
	if _, known := l.clients[client]; n <= loudRejections && (known || len(l.clients) < maxPollers) {
		l.clients[client] = loudRejections + 1
		l.quiet++
	}
	l.left++
	return slog.LevelDebug
}

// end ends the minute, and logs how many rejections the log lacks.
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
