package downstream

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
)

// Defaults of Limits.
const (
	DefaultMaxMessageSize = 4<<20 - 64<<10
	DefaultAckWait        = 200 * time.Millisecond
)

// headerRoom is the number of bytes that Finish may add to a batch.
const headerRoom = 1 << 10

// maxNamed times MaxSubscriptions is how many names a client may subscribe to and get an answer
// for each. Names beyond MaxSubscriptions are refused one by one (ABS-4). Answers to more than
// maxNamed times as many would need more memory than the requests did. Such names are refused
// without an answer and counted. All other names are served as usual.
const maxNamed = 2

// Limits are the part of a Config that may change while the server runs.
type Limits struct {
	MaxMessageSize   int           // bytes; responses are split below it (RES-9)
	MaxSubscriptions int           // of one stream, over all types (OPS-5); 0: no limit
	AckWait          time.Duration // how long a type's next response waits for the ACK of the last (ADS-2)
	RemovalWait      time.Duration // how long removals of clusters and endpoints wait (ADS-4); 0: they do not
	WarmWait         time.Duration // how long listeners and routes wait for new clusters' endpoints (WARM-4); 0: they do not
	ListHold         time.Duration // how long a list waits for names whose control plane is away (ABS-3)
	RESTWait         time.Duration // how long a poll is held (REST-1); 0: it is answered at once
}

func (l Limits) withDefaults() *Limits {
	l.MaxMessageSize = cmp.Or(l.MaxMessageSize, DefaultMaxMessageSize)
	l.AckWait = cmp.Or(l.AckWait, DefaultAckWait)
	return &l
}

// room returns how many bytes a batch may have.
func (l *Limits) room() int { return l.MaxMessageSize - headerRoom }

// left returns how many more names a stream may subscribe to that has a number of them.
func (l *Limits) left(subscriptions int) int {
	if l.MaxSubscriptions == 0 {
		return math.MaxInt
	}
	return l.MaxSubscriptions - subscriptions
}

// answerable returns how many more refused names a client gets answers for, if the relay
// remembers so many refused names of it.
func (l *Limits) answerable(remembered int) int {
	if l.MaxSubscriptions == 0 {
		return math.MaxInt
	}
	return max(0, maxNamed*l.MaxSubscriptions-remembered)
}

// surplus returns why a name beyond MaxSubscriptions is refused.
func (l *Limits) surplus(where string) *refusedError {
	return &refusedError{codes.ResourceExhausted, fmt.Errorf("at most %d subscriptions %s are served", l.MaxSubscriptions, where)}
}
