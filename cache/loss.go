package cache

import "time"

// Ending is why a loss is held no longer; "" while it is.
type Ending string

// The endings.
const (
	EndedByTime   Ending = "time"   // Guard.Hold has passed: clients are told of the loss
	EndedByReturn Ending = "return" // the server has all of it again
	// EndedByCommand is that an operator released it, or holds all of the table from now on.
	EndedByCommand Ending = "command"
	// EndedAlone is that it was never held: all resources of one type went, and those of other types stayed.
	EndedAlone Ending = "alone"
)

// Held is the loss of many resources that is held back, for operators.
type Held struct {
	Upstream, TypeURL string
	Lost              int       // resources that the server does not have any more, and clients have
	Of                int       // resources that there were
	Until             time.Time // when clients are told
	Ended             Ending
}
