package files

import "time"

// patience is how many times the quiet time a Pacer waits for quiet.
const patience = 20

// Pacer says when to look at the files: some quiet time after what happened last,
// but not put off for ever by what goes on happening.
type Pacer struct {
	quiet time.Duration
	timer *time.Timer
	since time.Time // of the first thing not looked at yet; zero if there is none
}

// NewPacer makes one that waits for that long. Stop must be called.
func NewPacer(quiet time.Duration) *Pacer {
	p := &Pacer{quiet: quiet, timer: time.NewTimer(0)}
	p.timer.Stop()
	return p
}

// Trigger notes that something happened.
func (p *Pacer) Trigger(now time.Time) {
	if p.since.IsZero() {
		p.since = now
	}
	p.timer.Reset(max(0, min(p.quiet, p.deadline().Sub(now))))
}

// C receives when it is time to look.
func (p *Pacer) C() <-chan time.Time { return p.timer.C }

// Tick is Trigger for a look at regular times. However often it comes, it puts off
// no look that is due.
func (p *Pacer) Tick(now time.Time) {
	if p.since.IsZero() {
		p.Trigger(now)
	}
}

// Overdue tells whether patience has come to an end.
func (p *Pacer) Overdue(now time.Time) bool { return !now.Before(p.deadline()) }

func (p *Pacer) deadline() time.Time { return p.since.Add(patience * p.quiet) }

// Done notes that everything was looked at.
func (p *Pacer) Done() { p.since = time.Time{} }

// Stop ends it.
func (p *Pacer) Stop() { p.timer.Stop() }
