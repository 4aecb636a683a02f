package downstream

import (
	"crypto/tls"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/identity"
)

// Judge judges clients that poll, as long as they do (ACC-1). Its methods may be called from any
// goroutine.
type Judge interface {
	// Judge is called when a poll comes from an address, and while it is held. The error is a
	// status if the client is not who it was any more. state is nil for plaintext.
	Judge(by identity.Caller, from string, state *tls.ConnectionState) error
	// Recheck is how often the client of a held poll is judged; 0: never.
	Recheck(by identity.Caller) time.Duration
}

// arrival is how a poll came.
type arrival struct {
	path string               // to which the client polls
	from string               // the client's address
	tls  *tls.ConnectionState // nil: plain text
	by   identity.Caller
}

// judging judges the clients of polls.
type judging struct{ by Judge } // nil: they are who they were as long as their connections are open

// judged returns a status if the client of a poll is not who it was any more.
func (j judging) judged(came arrival) error {
	if j.by == nil {
		return nil
	}
	return j.by.Judge(came.by, came.from, came.tls)
}

// recheck returns a channel that says when a held poll is judged again, and what ends that.
func (j judging) recheck(came arrival) (again <-chan time.Time, stop func()) {
	if j.by == nil {
		return nil, func() {}
	}
	every := j.by.Recheck(came.by)
	if every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every)
	return t.C, t.Stop
}
