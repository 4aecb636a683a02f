package filesource

import "time"

// pacer says when to look at the files: some quiet time after what happened last,
// but not put off for ever by what goes on happening.
type pacer struct {
	quiet time.Duration
	timer *time.Timer
	since time.Time // of the first thing not looked at yet; zero if there is none
}

func newPacer(quiet time.Duration) *pacer {
	p := &pacer{quiet: quiet, timer: time.NewTimer(0)}
	p.timer.Stop()
	return p
}

// trigger notes that something happened.
func (p *pacer) trigger(now time.Time) {
	if p.since.IsZero() {
		p.since = now
	}
	p.timer.Reset(max(0, min(p.quiet, p.deadline().Sub(now))))
}

// tick is trigger for what nobody did: it puts off nothing that is due, however
// often it comes.
func (p *pacer) tick(now time.Time) {
	if p.since.IsZero() {
		p.trigger(now)
	}
}

// overdue tells whether patience has come to an end.
func (p *pacer) overdue(now time.Time) bool { return !now.Before(p.deadline()) }

func (p *pacer) deadline() time.Time { return p.since.Add(patience * p.quiet) }

// done notes that everything was looked at.
func (p *pacer) done() { p.since = time.Time{} }

func (p *pacer) stop() { p.timer.Stop() }
