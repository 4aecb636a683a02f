package relay

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/downstream"
)

const (
	// unservedWithin is the time within which streams must end unserved that the relay is not ready any more (SUR-5).
	unservedWithin = 30 * time.Second
	// unreadyFor is how long the relay is not ready for it, at most at a time.
	unreadyFor = time.Minute
	// unservedLong is how much longer than server.unreachable_after a stream has to be there to count as served.
	unservedLong = 3 * time.Second
)

// unserved notes streams and polls that end because their upstream cannot be reached. Its methods may be called from any
// goroutine.
type unserved struct {
	downstream.Observer

	polled atomic.Int64 // when a poll last got what it asked for, in Unix nanoseconds

	mu        sync.Mutex   // guards what follows
	ends      [3]time.Time // the last ones, the oldest first
	since     time.Time    // since when the relay is not ready for it; zero: it is
	away      []string     // the upstreams that could not be reached then
	resources int64        // that were cached then
}

// Unserved implements downstream.Observer.
func (u *unserved) Unserved(variant string) {
	u.note(time.Now())
	u.Observer.Unserved(variant)
}

// StreamClosed implements downstream.Observer.
func (u *unserved) StreamClosed(variant string, code codes.Code) {
	if variant == downstream.REST && code == codes.OK {
		u.polled.Store(time.Now().UnixNano())
	}
	u.Observer.StreamClosed(variant, code)
}

// note notes a stream that ended.
func (u *unserved) note(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	copy(u.ends[:], u.ends[1:])
	u.ends[len(u.ends)-1] = now
}

// supplies are what the relay could serve from at some time.
type supplies struct {
	upstreams []upstreamReady
	resources int64       // that are cached
	serving   func() bool // whether any stream is served
}

// judge reports since when the relay is not ready, because it serves nobody and the streams that come end unserved; zero: it is
// ready.
func (u *unserved) judge(now time.Time, has supplies) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.since.IsZero() {
		reached := slices.ContainsFunc(has.upstreams, func(x upstreamReady) bool {
			return !x.away && slices.Contains(u.away, x.Name)
		})
		if !reached && has.resources <= u.resources && now.Sub(u.since) < unreadyFor {
			return u.since
		}
		u.since, u.ends = time.Time{}, [3]time.Time{}
		return u.since
	}
	if u.ends[0].IsZero() || now.Sub(u.ends[0]) > unservedWithin || now.UnixNano()-u.polled.Load() <= int64(unservedWithin) {
		return time.Time{}
	}
	u.away = nil
	for i := range has.upstreams {
		if x := &has.upstreams[i]; x.away {
			u.away = append(u.away, x.Name)
		}
	}
	if len(u.away) > 0 && !has.serving() { // else control planes refuse clients
		u.since, u.resources = now, has.resources
	}
	return u.since
}
