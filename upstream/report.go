package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// report has the events and the state of a session: for its observer, and for callers that ask for
// its Status.
type report struct {
	obs   Observer
	log   *slog.Logger
	state State     // the one told last; belongs to the session's owner
	heard time.Time // when the servers of streams that ended had answered last; the owner's

	loud     map[string]loudRejection // by type; the owner's
	warnings warnings

	// Guarded by statusMu. The lists of types in Status are made when somebody asks.
	statusMu sync.Mutex
	status   Status
	refused  map[wire.StreamID]string // why, of types by their streams
	lacking  map[string]struct{}      // types that cannot be asked for; written by the owner alone
	quiet    map[string]struct{}      // types whose wildcard was not answered
}

func newReport(upstream, endpoint string, log *slog.Logger, cfg SessionConfig) *report {
	r := &report{obs: cfg.Observer, log: log.With("scope", cfg.Scope), state: StateIdle, status: Status{
		Upstream: upstream, Scope: cfg.Scope, State: StateIdle, Since: time.Now(), Endpoint: endpoint,
	}}
	if r.obs == nil {
		r.obs = NopObserver{}
	}
	return r
}

// Status may be called from any goroutine.
func (r *report) Status() Status {
	r.statusMu.Lock()
	defer r.statusMu.Unlock()
	st := r.status
	st.Unavailable = sortedKeys(r.lacking)
	st.Unanswered = sortedKeys(r.quiet)
	if len(r.refused) > 0 {
		st.Refused = make(map[string]string, len(r.refused))
	}
	for stream, reason := range r.refused {
		st.Refused[stream.TypeURL] = reason
	}
	return st
}

// note changes the status.
func (r *report) note(f func(*Status)) {
	r.statusMu.Lock()
	defer r.statusMu.Unlock()
	f(&r.status)
}

// turn tells of the state if it is another one.
func (r *report) turn(state State) {
	if state == r.state {
		return
	}
	now := time.Now()
	stale := time.Time{}
	if state == StateConnecting {
		if stale = now; r.state == StateConnected && !r.heard.IsZero() {
			stale = r.heard
		}
	}
	r.state = state
	r.note(func(st *Status) {
		st.State, st.Since, st.Freshness.Stale = state, now, stale
		st.Freshness.Connected = st.Freshness.Connected || state == StateConnected
	})
	r.obs.StateChanged(state)
}

// wrote counts a request. Any goroutine may call it.
func (r *report) wrote(typeURL string, kind RequestKind) {
	r.note(func(st *Status) {
		st.Requests++
		switch kind {
		case KindAck:
			st.Acks++
		case KindNack:
			st.Nacks++
		case KindSubscribe:
		}
	})
	r.obs.RequestSent(typeURL, kind)
}

// responded counts a response, before it is taken.
func (r *report) responded(typeURL string, resources, removed, bytes int, at time.Time) {
	r.note(func(st *Status) { st.Responses++; st.Freshness.LastResponse = at })
	r.obs.ResponseReceived(typeURL, resources, removed, bytes)
}

// noteLarge tells of a request or poll that would pass the limit, and of the names that are left out (RES-17).
func (r *report) noteLarge(typeURL string, names, leftOut, bytes, limit int) {
	r.log.Warn("request would pass the limit, and all its names are watched: leaving out the newest",
		"type", typeURL, "names", names, "left_out", leftOut, "bytes", bytes, "limit", limit)
}

// noteRejected tells of a response that was refused.
func (r *report) noteRejected(typeURL, nonce string, reason error, at time.Time) {
	rejection := &RejectedError{TypeURL: typeURL, Nonce: nonce, Err: reason, At: at}
	r.log.Log(context.Background(), r.rejectionLevel(typeURL, detail(reason), at), "response rejected",
		"type", typeURL, "nonce", nonce, "cached", cached(reason), "error", detail(reason))
	r.note(func(st *Status) { st.LastRejection = rejection })
}

// cached returns the words for what clients are served after a response was rejected for a reason.
func cached(reason error) string {
	if _, clients := errors.AsType[*clientError](reason); clients {
		return "the response: a client rejected it, others may use it"
	}
	if part, ok := errors.AsType[interface {
		error
		Partial() bool
	}](reason); ok && part.Partial() {
		return "the response without the rejected part: of that the resources from before"
	}
	return "the resources from before"
}

// rejectionPause is how long the same rejection of a type is not worth another warning:
// a server may send the same again at once, for ever. It is counted (Status.Nacks).
const rejectionPause = time.Minute

// loudRejection is the last rejection of a type that was worth a warning.
type loudRejection struct {
	reason string
	at     time.Time
}

// rejectionLevel is the level at which a rejection is logged. Only the session's owner
// calls it.
func (r *report) rejectionLevel(typeURL, reason string, at time.Time) slog.Level {
	if last, ok := r.loud[typeURL]; ok && last.reason == reason && at.Sub(last.at) < rejectionPause {
		return slog.LevelDebug
	}
	if r.loud == nil || len(r.loud) >= maxAnswered {
		r.loud = make(map[string]loudRejection)
	}
	r.loud[typeURL] = loudRejection{reason, at}
	return slog.LevelWarn
}

// noteFailed tells of an attempt that failed, or of a stream that was lost. A server that
// is gone for long is worth one line, not one for each attempt: those are not loud.
func (r *report) noteFailed(ctx context.Context, id wire.StreamID, err *ConnectionError, delay time.Duration, loud, lost bool) {
	level := slog.LevelDebug
	if loud {
		level = slog.LevelWarn
	}
	r.log.Log(ctx, level, "stream lost", "stream", id, "error", err, "retry_in", delay)
	r.note(func(st *Status) {
		st.LastError = err
		if lost {
			st.Lost++
		}
	})
}
