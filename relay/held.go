package relay

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// heldLoss is the loss of many resources of a type that clients are not told yet (SUR-3), in all
// scopes of an upstream.
type heldLoss struct {
	TypeURL string    `json:"type_url"`
	Removed int       `json:"removed"`
	Scopes  int       `json:"scopes"`
	Until   time.Time `json:"until"` // when the first scope's clients are told
}

// heldLosses lists what the stores of sessions hold, by upstream and type.
func heldLosses(sessions []*session) map[string][]heldLoss {
	all := make(map[string][]heldLoss)
	for _, s := range sessions {
		for _, x := range s.store.Operator().Held(false) {
			if x.Why != cache.HeldByGuard {
				continue
			}
			losses := all[s.key.plane]
			i, found := slices.BinarySearchFunc(losses, x.TypeURL, func(l heldLoss, typeURL string) int { return strings.Compare(l.TypeURL, typeURL) })
			if !found {
				losses = slices.Insert(losses, i, heldLoss{TypeURL: x.TypeURL, Until: x.Until})
			}
			l := &losses[i]
			l.Removed, l.Scopes = l.Removed+x.Lost, l.Scopes+1
			if x.Until.Before(l.Until) {
				l.Until = x.Until
			}
			all[s.key.plane] = losses
		}
	}
	return all
}

// warnAgain is how long further losses of an upstream's type are not worth another warning: those
// of other scopes come with the first.
const warnAgain = time.Minute

// losses logs what is held, and how it ended.
type losses struct {
	cache.Observer

	log *slog.Logger

	mu     sync.Mutex
	warned map[lossKey]time.Time
}

type lossKey struct {
	upstream, typeURL string
	ended             cache.Ending
}

// Held implements cache.Observer.
func (l *losses) Held(h cache.Held) {
	l.Observer.Held(h)
	of := lossKey{h.Upstream, h.TypeURL, h.Ended}
	if h.Ended == "" {
		l.log.Log(context.Background(), l.level(of, slog.LevelWarn), "an upstream removes many resources at once: the relay holds that back from clients",
			"upstream", h.Upstream, "type", h.TypeURL, "removed", h.Lost, "of", h.Of, "until", h.Until)
		return
	}
	level := l.level(of, slog.LevelInfo)
	if h.Ended == cache.EndedAlone {
		l.log.Log(context.Background(), level, "an upstream removed all resources of a type, and no other type: clients are told",
			"upstream", h.Upstream, "type", h.TypeURL, "removed", h.Lost)
		return
	}
	l.log.Log(context.Background(), level, "the relay holds the removal of resources no longer",
		"upstream", h.Upstream, "type", h.TypeURL, "told", h.Lost, "because", string(h.Ended))
}

// WentBack implements cache.Observer.
func (l *losses) WentBack(upstream, typeURL string, n int) {
	l.Observer.WentBack(upstream, typeURL, n)
	l.log.Log(context.Background(), l.level(lossKey{upstream, typeURL, "went back"}, slog.LevelWarn),
		"a new stream of an upstream has older content than clients: the control plane was rolled back, or this replica is behind; clients get it",
		"upstream", upstream, "type", typeURL, "resources", n)
}

// level is the level of a line: that of the first like it for a while, and debug for others.
func (l *losses) level(k lossKey, first slog.Level) slog.Level {
	if l.first(k, time.Now()) {
		return first
	}
	return slog.LevelDebug
}

// first reports whether nothing like it was logged for a while.
func (l *losses) first(k lossKey, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.warned[k]; ok && now.Sub(at) < warnAgain {
		return false
	}
	for old, at := range l.warned {
		if now.Sub(at) >= warnAgain {
			delete(l.warned, old)
		}
	}
	if l.warned == nil {
		l.warned = make(map[lossKey]time.Time)
	}
	l.warned[k] = now
	return true
}
