package downstream

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Defaults of Limits.
const (
	DefaultMaxMessageSize = 4<<20 - 64<<10
	DefaultAckWait        = 200 * time.Millisecond
)

// freeUnfinished is how many bytes of a message that a client has begun do not count: few messages have more, and a
// stream or a poll costs more.
const freeUnfinished = 64 << 10

// headerRoom is the number of bytes that Finish may add to a batch.
const headerRoom = 1 << 10

// maxNamed times Subscriptions is how many names a client may subscribe to and get an answer
// for each. Names beyond Subscriptions are refused one by one (ABS-4). Answers to more than
// maxNamed times as many would need more memory than the requests did. Such names are refused
// without an answer and counted. All other names are served as usual. The names that the relay
// remembers as refused may have NamesBytes, as those may that it serves.
const maxNamed = 2

// maxNameLength limits the bytes of a name, whatever Limits say (OPS-5). The relay repeats names in requests to the
// control plane, which it shares between clients, and in responses, which must stay below their
// limit (RES-9). So no single name may be large.
const maxNameLength = 64 << 10

// retireGrace is how long the end of a stream waits for acknowledgements, beside the waits of Limits.
const retireGrace = 10 * time.Second

// ClientLimits are what clients may take (LIM-1).
type ClientLimits struct {
	Streams           int           // of all clients, with held polls; 0: no limit
	UnfinishedBytes   int           // of messages that clients have begun, of all clients, beyond the first of each; 0: no limit
	Share             float64       // what part of Streams, UnfinishedBytes and NamesTotal one address and one identity may have, while less than a tenth of them is free
	Subscriptions     int           // of one stream, over all types (OPS-5); 0: no limit
	NamesBytes        int           // of all names of one stream (ABS-4); 0: no limit
	NamesTotal        int           // what the names of all streams and polls may weigh, beyond the first of each; 0: no limit
	NamesWhileShort   int           // the same while memory is short (SetShort), if there is no NamesTotal
	NameBytes         int           // of one name (ABS-4); 0: 64 KiB, and it is never more
	NodeBytes         int           // of the client's node; 0: no limit
	PollsPerClient    int           // held at a time by one client: an address, an identity and a node; 0: no limit
	RESTBytes         int           // of answers to polls that are being written, of all clients; 0: no limit
	UnknownTypes      int           // of one store, that no service is known of and that its server never answered; 0: no limit
	FirstRequest      time.Duration // how long a stream may be without a request; 0: no limit
	RequestsPerSecond int           // of one stream, beside answers to responses; further ones wait; 0: no limit
}

// Limits are the part of a Config that may change while the server runs.
type Limits struct {
	MaxMessageSize int // bytes; responses are split below it (RES-9)
	PerClient      ClientLimits
	AckWait        time.Duration // how long a type's next response waits for the ACK of the last (ADS-2)
	RemovalWait    time.Duration // how long removals of what others refer to wait (ADS-4, ADS-5)
	WarmWait       time.Duration // how long listeners and routes wait for new clusters' endpoints (WARM-4); 0: they do not
	ListHold       time.Duration // how long a list waits for names whose control plane is away (ABS-3)
	RESTWait       time.Duration // how long a poll is held (REST-1); 0: it is answered at once
}

func (l Limits) withDefaults() *Limits {
	l.MaxMessageSize = cmp.Or(l.MaxMessageSize, DefaultMaxMessageSize)
	l.AckWait = cmp.Or(l.AckWait, DefaultAckWait)
	l.PerClient.NameBytes = cmp.Or(min(l.PerClient.NameBytes, maxNameLength), maxNameLength)
	return &l
}

// room returns how many bytes a batch may have.
func (l *Limits) room() int { return l.MaxMessageSize - headerRoom }

// left returns what a stream may subscribe to beside a number of names with so many bytes. total is what its names
// may weigh yet in all; nil: no limit.
func (l *Limits) left(names, bytes int, total *int) allowance {
	return allowance{
		total: total,
		names: below(l.PerClient.Subscriptions, l.PerClient.Subscriptions-names),
		bytes: below(l.PerClient.NamesBytes, l.PerClient.NamesBytes-bytes),
	}
}

// answerable returns how many more refused names a client gets answers for, if the relay
// remembers so many refused names of it, with so many bytes. total is what they may weigh yet, beyond what is free; nil: no limit.
func (l *Limits) answerable(names, bytes int, total *int) allowance {
	return allowance{
		total: total, free: max(0, freeRefused-weightOf(names, bytes)),
		names: below(l.PerClient.Subscriptions, max(0, maxNamed*l.PerClient.Subscriptions-names)),
		bytes: below(l.PerClient.NamesBytes, max(0, l.PerClient.NamesBytes-bytes)),
	}
}

// below returns what is left below a limit. Without a limit that is half of what an int can hold, so that
// there can be more.
func below(limit, left int) int {
	if limit == 0 {
		return math.MaxInt / 2
	}
	return left
}

// retirement is how long a stream that is to end may go on.
func (l *Limits) retirement() time.Duration {
	return retireGrace + l.AckWait + l.RemovalWait + l.WarmWait
}

// tooLong returns why a name is refused that is too long, nil if it is not.
func tooLong(spelling string, most int) error {
	if len(spelling) <= most {
		return nil
	}
	return &refusedError{
		codes.ResourceExhausted, fmt.Errorf("a resource name has %d bytes, at most %d are served", len(spelling), most),
	}
}

// large returns the status for a node that is too large, nil if it is not.
func (l *Limits) large(nodeBytes int) error {
	if l.PerClient.NodeBytes == 0 || nodeBytes <= l.PerClient.NodeBytes {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted, "the node has %d bytes, at most %d are served", nodeBytes, l.PerClient.NodeBytes)
}

// In JSON a value has two bytes at least, and takes up to 250 when it is decoded. So the number of values is bounded
// too, before a poll is decoded (LIM-3).
const (
	// freeValues are values that each poll may have beside its names: of fields that take less than valueBytes.
	freeValues = 1 << 10
	// valueBytes are what a value of a node's metadata takes in protobuf at least. So no node within NodeBytes has more
	// values than it has room for.
	valueBytes = 4
)

// crammed returns the status for a poll that has too many values beside its names, nil if it has not.
func (l *Limits) crammed(values int) error {
	most := freeValues + l.PerClient.NodeBytes/valueBytes
	if l.PerClient.NodeBytes == 0 || values <= most {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted, "the poll has %d values beside its names, at most %d are served (limits.node_bytes)", values, most)
}

// crammedNames returns the status for a poll of so many bytes whose names have too many values, nil if they have not.
// They have the bound that the names of a stream's request have.
func crammedNames(values, bytes int) error {
	most := wire.MaxNames(bytes)
	if values <= most {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted, "the names of the poll have %d values in %d bytes, at most %d are served", values, bytes, most)
}

// refusedError is why the relay itself answers a name. The stream or poll goes on.
type refusedError struct {
	code codes.Code
	err  error
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

func refusal(err error) *refusedError {
	r, _ := errors.AsType[*refusedError](err)
	return r
}

// unserved reports whether the error of locate says that the relay serves no store's content for the name.
func unserved(err error) bool { return refusal(err) != nil || crowded(err) != nil }

// names bounds what the names of all streams and polls weigh, by the limits and by whether memory is short.
type names struct {
	*quota.Bounds

	mu     sync.Mutex   // guards what follows
	limits ClientLimits // in force
	short  bool         // memory is short
}

// limit puts limits in force.
func (n *names) limit(l ClientLimits) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.limits = l
	n.bound()
}

// memory says whether memory is short.
func (n *names) memory(short bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.short = short
	n.bound()
}

// bound changes the bound. The caller holds mu.
func (n *names) bound() {
	most := n.limits.NamesTotal
	if most == 0 && n.short {
		most = n.limits.NamesWhileShort
	}
	n.Set(quota.Limit{Most: most, Share: n.limits.Share})
}
