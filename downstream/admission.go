package downstream

import (
	"context"

	"github.com/xdsrelay/xdsrelay/internal/quota"
)

// Admission decides which clients a server takes on, and when (LIM-1, LIM-3). Its methods may be called
// from any goroutine. Their errors are statuses.
type Admission interface {
	// Room says why a stream does not even begin: memory is very short.
	Room() error
	// Join waits until a client may join whose first request is there. ctx is that of its stream or poll.
	// Clients take turns (LIM-2).
	// Without an error Done of the turn is to be called when the client was sent what is cached for it, or
	// when sending has to wait for the client.
	Join(ctx context.Context, who quota.Client) (Turn, error)
	// Poll is Join for a poll of a client that presents a version: it was served before.
	Poll(ctx context.Context, who quota.Client) (Turn, error)
}

// Turn is that of one client, to join. Calling Done again does nothing.
type Turn interface{ Done() }

// done ends a turn, if there is one.
func done(t Turn) {
	if t != nil {
		t.Done()
	}
}
