package downstream

import (
	"crypto/tls"
	"time"
)

// Judge judges the certificates of clients that poll, as long as they do (ACC-1). Its methods may
// be called from any goroutine.
type Judge interface {
	// Judge is called when a poll comes from an address, and while it is held. The error is a
	// status if the client's certificate does not count any more.
	Judge(from string, state *tls.ConnectionState) error
	// Recheck is how often the certificate of a held poll is judged; more than 0.
	Recheck() time.Duration
}

// arrival is how a poll came.
type arrival struct {
	path string               // to which the client polls
	from string               // the client's address
	tls  *tls.ConnectionState // nil: plain text
}

// judging judges the certificates of polls.
type judging struct{ by Judge } // nil: they count as long as their connections

// judged returns a status if the client of a poll is not who it was any more.
func (j judging) judged(came arrival) error {
	if j.by == nil || came.tls == nil {
		return nil
	}
	return j.by.Judge(came.from, came.tls)
}

// recheck returns a channel that says when a held poll is judged again, and what ends that.
func (j judging) recheck() (again <-chan time.Time, stop func()) {
	if j.by == nil {
		return nil, func() {}
	}
	t := time.NewTicker(j.by.Recheck())
	return t.C, t.Stop
}
