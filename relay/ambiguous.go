package relay

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/xdsrelay/xdsrelay/cache"
)

const (
	// loudAmbiguities is how many of them are worth a warning each: a server may go on
	// for ever, and the metric counts them all.
	loudAmbiguities = 8
	// maxLoggedName bounds a name in these lines, in bytes.
	maxLoggedName = 256
)

// ambiguities logs that a server has more than one variant of a resource for the same
// dynamic parameters (DYN-1), which nothing but a human can put right.
type ambiguities struct {
	cache.Observer

	log  *slog.Logger
	seen atomic.Int64
}

// Ambiguous implements cache.Observer.
func (a *ambiguities) Ambiguous(typeURL, name string) {
	a.Observer.Ambiguous(typeURL, name)
	level := slog.LevelWarn
	if a.seen.Add(1) > loudAmbiguities {
		level = slog.LevelDebug
	}
	a.log.Log(context.Background(), level, "a resource has more than one variant for the same dynamic parameters: the relay serves the variant with the fewest constraints",
		"type", typeURL, "name", name[:min(len(name), maxLoggedName)])
}
