package upstream

import (
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/contain"
	"github.com/xdsrelay/xdsrelay/internal/moment"
	"github.com/xdsrelay/xdsrelay/internal/wake"
)

const (
	// questionPause is how long a replica may be silent while nothing is due before it is
	// asked a question. With DefaultResponseTimeout a process that hangs is left within the
	// 20 seconds of UPS-1, also where its server allows no pings.
	questionPause = 10 * time.Second
	// questionRate bounds what questions make a server send, in bytes per second: the
	// pause after a large answer is longer.
	questionRate = 256 << 10
	// maxPatience is how many times the wait for an answer doubles while a replica stays
	// silent: a server that is slow to begin must get to answer.
	maxPatience = 3
	// maxHarms is how many times in a row a server may end a stream while it was asked a
	// question. Then it takes one stream of a node only, and is asked no more.
	maxHarms = 2
)

// exam finds out whether a replica still answers (SUR-2). A server may have nothing to say for
// hours. So while nothing is due, or if something stays unanswered, one session asks the
// replica a question that must be answered. The sessions with streams to the replica take
// turns. Any answer, to whichever session, shows that the replica is well. Its methods may be
// called from any goroutine.
type exam struct {
	timeout time.Duration // of an answer; 0: silence counts nowhere. Immutable once the upstream is made

	mu       sync.Mutex
	panics   *contain.Panics // those of the sitters
	sitters  map[*sitter]int // sessions with open streams, and how many
	declined map[*sitter]bool
	timer    *time.Timer
	set      int // how often timer was set or stopped: one that fired meanwhile is void

	turn, asking *sitter   // whose turn it is to ask, and who is asking; nil: nobody
	asked        time.Time // when the last question was asked
	answered     time.Time // when the replica answered last
	from         time.Time // when the pause began that ends with the next question
	pause        time.Duration
	doubted      time.Time // when the oldest request was written that makes the replica suspect; zero: none
	urgent       bool      // the question must not wait for other answers
	check        recheck
	verdict      verdictOf
	probe        standingProbe
}

// recheck says when versions are to be compared: after a loss the server may be another
// process, which uses the same versions for other contents (ACK-4).
type recheck struct {
	lost, done time.Time
	due        time.Time // zero: it is not
}

// verdictOf is what became of questions.
type verdictOf struct {
	silent   time.Time // since when the replica is silent; zero: it is not
	last     time.Time // when it was last found to be
	patience int       // how many times the wait for an answer was doubled
	harms    harms
}

// harms are the streams that the server ended for questions.
type harms struct {
	inRow int       // questions in a row that cost a stream
	by    *sitter   // who asked last
	at    time.Time // when
	done  bool      // that cost a stream
	lost  time.Time // when a stream was lost last
}

// afterwards is how long after a question the end of a stream may be due to it.
const afterwards = time.Second

// apart is how long after the loss of a stream a question costs none by chance: the session is
// about to open the stream again, and the server ends the one that it got first, or none.
const apart = 5 * time.Second

// standingProbe is what sessions tell each other of their probes of a replica.
type standingProbe struct {
	under  bool      // one is under way
	proven time.Time // when the last one went well
}

// sitter is a session's part in exams.
type sitter struct {
	bell   chan<- struct{} // one slot: it is its turn, or a replica is silent
	panics *contain.Panics
}

// wait is how long an answer may take now. The caller holds mu.
func (e *exam) wait() time.Duration { return e.timeout << e.verdict.patience }

// sit says that a session opened a stream to the replica.
func (e *exam) sit(s *sitter, at time.Time) {
	if e.timeout == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.sitters) == 0 {
		e.sitters, e.from = make(map[*sitter]int), at
	}
	e.sitters[s]++
	e.panics = s.panics
	e.arm()
}

// resumed says that a session presented versions. Soon they are compared, unless they were
// since the replica was lost last.
func (e *exam) resumed(at time.Time) {
	if e.timeout == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.check.due.IsZero() && (e.check.done.IsZero() || e.check.lost.After(e.check.done)) {
		e.check.due = at.Add(e.timeout / 4)
	}
	e.arm()
}

// rise takes back sit. lost is set if the stream broke.
func (e *exam) rise(s *sitter, lost bool) {
	if e.timeout == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if lost {
		e.check.lost = time.Now()
	}
	if e.sitters[s]--; e.sitters[s] > 0 {
		return
	}
	delete(e.sitters, s)
	delete(e.declined, s)
	if e.turn == s {
		e.turn = nil
	}
	if e.asking == s {
		e.asking = nil
	}
	if len(e.sitters) == 0 { // what is asked for from now on is another reason
		e.doubted, e.urgent, e.check.due = time.Time{}, false, time.Time{}
	}
	e.arm()
}

// doubt says that something was asked for which the replica may have to answer. If nothing
// comes from it for a quarter of the time, the question follows; if urgent, at once.
func (e *exam) doubt(since time.Time, urgent bool) {
	if e.timeout == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doubted, e.urgent = moment.Earlier(e.doubted, since), e.urgent || urgent
	e.arm()
}

// due is when the next question is due, zero if none is. The caller holds mu.
func (e *exam) due() time.Time {
	if len(e.sitters) == 0 || e.turn != nil || e.asking != nil || e.verdict.harms.inRow >= maxHarms {
		return time.Time{}
	}
	at := e.from
	if e.answered.After(at) {
		at = e.answered
	}
	at = moment.Earlier(at.Add(max(e.pause, questionPause)), e.check.due)
	switch {
	case e.doubted.IsZero():
	case e.urgent:
		at = e.doubted
	default:
		at = moment.Earlier(at, e.doubted.Add(e.timeout/4))
	}
	return at
}

// arm sets the timer. The caller holds mu.
func (e *exam) arm() {
	at := e.due()
	if e.timer != nil {
		e.timer.Stop()
	}
	e.set++
	if at.IsZero() {
		e.timer = nil
		return
	}
	set := e.set
	e.timer = time.AfterFunc(time.Until(at), e.panics.Func(contain.Background, func() { e.begin(set) }))
}

// begin gives a session the turn, if it is time for a question. set says which timer it is.
func (e *exam) begin(set int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if set != e.set {
		return
	}
	if at := e.due(); at.IsZero() || time.Now().Before(at) {
		e.arm() // there was an answer meanwhile
		return
	}
	for s := range e.sitters {
		if !e.declined[s] {
			e.turn = s
			wake.Up(s.bell)
			return
		}
	}
	// No session holds anything that could be asked for.
	e.rest(time.Now())
}

// rest begins another pause. The caller holds mu.
func (e *exam) rest(now time.Time) {
	e.from, e.doubted, e.urgent, e.declined = now, time.Time{}, false, nil
	if !now.Before(e.check.due) {
		e.check.due = time.Time{}
	}
	e.arm()
}

// take reports whether it is a session's turn to ask. The answer is due at deadline. compare
// is set if the versions of many resources are to be compared.
func (e *exam) take(s *sitter) (deadline time.Time, compare, ok bool) {
	if e.timeout == 0 {
		return time.Time{}, false, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.turn != s {
		return time.Time{}, false, false
	}
	now, h := time.Now(), &e.verdict.harms
	e.turn, e.asking, e.asked = nil, s, now
	if !h.done && h.at.Sub(h.lost) > apart {
		h.inRow = 0
	}
	h.by, h.at, h.done = s, now, false
	if e.doubted.IsZero() {
		e.doubted = now
	}
	deadline = e.doubted.Add(e.wait())
	if soonest := now.Add(e.timeout / 2); deadline.Before(soonest) {
		deadline = soonest
	}
	return deadline, !e.check.due.IsZero() && !now.Before(e.check.due), true
}

// decline says that a session that took its turn has nothing to ask.
func (e *exam) decline(s *sitter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asking != s {
		return
	}
	e.asking = nil
	if e.declined == nil {
		e.declined = make(map[*sitter]bool)
	}
	e.declined[s] = true
	e.arm()
}

// end says that a session's question is over. compared is set if versions were compared, and
// bytes is the size of the answer. It reports whether the replica is found to be silent: the
// question was not answered, and nobody has heard anything since it was asked. If the replica became
// suspect again meanwhile, since it answered something else, the next question follows.
func (e *exam) end(s *sitter, silent, compared bool, bytes int) (found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asking != s {
		return false
	}
	now, doubted, urgent := time.Now(), e.doubted, e.urgent
	e.asking = nil
	e.verdict.harms.at = now
	if compared {
		e.check.done, e.check.due = now, time.Time{}
	}
	e.pause = time.Duration(bytes) * time.Second / questionRate
	found = silent && !doubted.IsZero() && e.answered.Before(moment.Earlier(doubted, e.asked))
	e.rest(now)
	if !found && doubted.After(e.asked) {
		e.doubted, e.urgent = doubted, urgent
		e.arm()
	}
	return found
}

// hear notes an answer. It reports whether the replica was silent.
func (e *exam) hear(at time.Time) (wasSilent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answered = at
	wasSilent = !e.verdict.silent.IsZero()
	e.verdict.silent, e.verdict.patience = time.Time{}, 0
	if !at.Before(e.doubted) {
		e.doubted, e.urgent = time.Time{}, false
	}
	return wasSilent
}

// fallSilent notes that the replica is silent, and has the sessions leave it. news is set if
// it was not before.
func (e *exam) fallSilent(at time.Time) (news bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	news = e.verdict.silent.IsZero()
	if news {
		e.verdict.silent = at
	}
	e.verdict.last = at
	e.verdict.patience = min(e.verdict.patience+1, maxPatience)
	for s := range e.sitters {
		wake.Up(s.bell)
	}
	return news
}

// silence is since when the replica is silent, zero if it is not, and when it was last found
// to be.
func (e *exam) silence() (since, last time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.verdict.silent.IsZero() {
		return time.Time{}, time.Time{}
	}
	return e.verdict.silent, e.verdict.last
}

// heard is when the replica answered last; zero before the first time.
func (e *exam) heard() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.answered
}

// patience is how long a request that must be answered may stay unanswered now.
func (e *exam) patience() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wait()
}

// harmed says that the server ended a session's stream. It reports whether that is the last
// time: it was asked a question then, and the time before.
func (e *exam) harmed(s *sitter) (enough bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := &e.verdict.harms
	if h.done || h.by != s || e.asking != s && time.Since(h.at) > afterwards {
		return false
	}
	h.done, h.lost = true, time.Now()
	h.inRow++
	return h.inRow == maxHarms
}

// tryProbe reports whether a session is to probe the replica: it is not if another one does,
// or did so lately, which is proof for all.
func (e *exam) tryProbe(within time.Duration) (probe, proven bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.probe.proven.IsZero() && time.Since(e.probe.proven) < within {
		return false, true
	}
	if e.probe.under {
		return false, false
	}
	e.probe.under = true
	return true, false
}

// probed says what became of a probe.
func (e *exam) probed(well bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probe = standingProbe{}
	if well {
		e.probe.proven = time.Now()
	}
}

// disprove says that the replica failed: what a probe showed is void.
func (e *exam) disprove() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probe.proven = time.Time{}
}

// close ends the timer. No session runs any more.
func (e *exam) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.sitters)
	e.arm()
}
