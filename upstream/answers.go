package upstream

import (
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

const (
	// quietTime is how long a server may say nothing before it is asked for something that it delivered.
	quietTime = time.Minute
	// unansweredPause is how long a query that no endpoint answered counts against none of them (SUR-8).
	unansweredPause = 10 * time.Minute
	// maxEnds is how many queries in a row may cost a stream. Then the server takes one stream of a
	// node only, and is sent no more.
	maxEnds = 2
	// endsApart is how long after the loss of a stream a query may cost none by chance: the stream is about to be
	// opened again, and the server ends the one that it got first.
	endsApart = 5 * time.Second
	// endsWithin is how long after a query the end of a stream may be due to it.
	endsWithin = time.Second
)

// answers has the times at which one replica answered, for all sessions of an upstream (SUR-2). Its methods may be
// called from any goroutine.
type answers struct {
	mu     sync.Mutex
	heard  time.Time // when it answered last, whichever session
	asked  time.Time // when a query was sent last
	by     any       // the session that sent it
	busy   bool      // it is under way
	lost   time.Time // when a stream was lost last
	silent time.Time // since when it does not answer; zero: it does
	found  time.Time // when that was found last
	ends   int       // queries in a row that cost a stream
	ended  bool      // the last one did
	apart  bool      // it was not soon after the loss of a stream

	checking bool      // a session finds out whether it is well again
	wellAt   time.Time // when one found that it is
}

// hear notes an answer. It reports whether the replica was silent.
func (a *answers) hear(at time.Time) (wasSilent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wasSilent = !a.silent.IsZero()
	a.heard, a.silent = notify.Later(a.heard, at), time.Time{}
	return wasSilent
}

// last is when the replica answered last; zero before the first time.
func (a *answers) last() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard
}

// due is when the next query is due, if nothing comes from the replica; zero: never.
func (a *answers) due() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ends >= maxEnds {
		return time.Time{}
	}
	return notify.Later(a.heard, a.asked).Add(quietTime)
}

// begin reports whether by may send a query, until done is called. One session does so at a time. quiet is set if
// the reason is that the replica says nothing: it may have spoken by now.
func (a *answers) begin(by any, at time.Time, quiet bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy || a.ends >= maxEnds || quiet && at.Sub(notify.Later(a.heard, a.asked)) < quietTime {
		return false
	}
	if !a.ended && a.apart {
		a.ends = 0
	}
	a.busy, a.by, a.asked, a.ended, a.apart = true, by, at, false, at.Sub(a.lost) > endsApart
	return true
}

// pass reports whether a session may send queries to other replicas because this one takes none, until done is called.
func (a *answers) pass() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.busy
	a.busy = true
	return !was
}

func (a *answers) done() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = false
}

// lose notes that a stream of a session was lost. refused is set if the server ended it with a status. It reports
// whether the server does so for queries: when that is found.
func (a *answers) lose(by any, refused bool) (forQueries bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = time.Now()
	if !refused || a.ended || a.by != by || !a.busy && time.Since(a.asked) > endsWithin {
		return false
	}
	a.ended = true
	a.ends++
	return a.ends == maxEnds
}

// lostSince reports whether a stream was lost since the last query: the server may have begun anew.
func (a *answers) lostSince() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost.After(a.asked)
}

// fallSilent notes that the replica does not answer. news is set if it did before.
func (a *answers) fallSilent(at time.Time) (news bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	news = a.silent.IsZero()
	if news {
		a.silent = at
	}
	a.found = at
	return news
}

// silence is since when the replica is silent, zero if it is not, and when it was last found to
// be.
func (a *answers) silence() (since, found time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent.IsZero() {
		return time.Time{}, time.Time{}
	}
	return a.silent, a.found
}

// check reports whether a session is to find out whether the replica is well again: not if another one does, or
// found so lately, which counts for all.
func (a *answers) check(within time.Duration) (find, well bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.wellAt.IsZero() && time.Since(a.wellAt) < within {
		return false, true
	}
	if a.checking {
		return false, false
	}
	a.checking = true
	return true, false
}

// checked says what came of that.
func (a *answers) checked(well bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checking, a.wellAt = false, time.Time{}
	if well {
		a.wellAt = time.Now()
	}
}

// failed says that the replica failed, so that it is to be checked again.
func (a *answers) failed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wellAt = time.Time{}
}

// maySilence reports whether the replica may be called silent again though it is the only one.
func (a *answers) maySilence(at time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.found.IsZero() || at.Sub(a.found) >= unansweredPause
}
