package downstream

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// maxInFlight limits the responses that flow keeps for a client that acknowledges nothing. A
// type with maxOutstanding unacknowledged responses waits for overflowWait before the next one,
// if that is longer than its usual wait (ADS-2).
const (
	maxInFlight    = 4 * maxOutstanding
	maxOutstanding = 8
	overflowWait   = time.Second
)

// flow is the flow control of one type: its responses and their acknowledgements. Numbers of
// responses rise on a stream, so one comparison tells whether the last one was acknowledged.
type flow struct {
	sent, acked uint64     // numbers of the last response, and of the last that was acknowledged
	content     uint64     // number of the last response with more in it than renewed TTLs
	sentAt      time.Time  // of the last response
	received    time.Time  // when the oldest change in the unacknowledged responses came from upstream
	flights     []inFlight // the unacknowledged responses, the oldest first
}

// inFlight is a response that is not acknowledged.
type inFlight struct {
	number uint64
	batch  *delivery.Batch
}

// send notes a response.
func (f *flow) send(number uint64, b *delivery.Batch, now time.Time) {
	f.sent, f.sentAt = number, now
	if !b.Renewal {
		f.content = number
	}
	if !b.Received.IsZero() && (f.received.IsZero() || b.Received.Before(f.received)) {
		f.received = b.Received
	}
	if len(f.flights) == maxInFlight {
		f.flights = slices.Delete(f.flights, 0, 1)
	}
	f.flights = append(f.flights, inFlight{number, b})
}

// acknowledge returns the response that the client answers now, and forgets it with those before
// it. It returns nil if flow does not have the response any more.
func (f *flow) acknowledge(number uint64) (b *delivery.Batch) {
	f.acked = number
	n := 0
	for ; n < len(f.flights) && f.flights[n].number <= number; n++ {
		if f.flights[n].number == number {
			b = f.flights[n].batch
		}
	}
	f.flights = slices.Delete(f.flights, 0, n)
	return b
}

// answered returns when the response was sent that was answered last; the zero time if others
// were sent since.
func (f *flow) answered() (at time.Time) {
	if f.idle() {
		at = f.sentAt
	}
	return at
}

// owed reports whether an answer to the response with a number is still to come.
func (f *flow) owed(number uint64) bool { return f.acked < number && number <= f.sent }

// idle reports whether the client has acknowledged every response.
func (f *flow) idle() bool { return f.acked >= f.sent }

// acks says which acknowledgements the client owes.
func (f *flow) acks(now time.Time, wait time.Duration) delivery.Acks {
	switch {
	case f.idle():
		return delivery.Acknowledged
	case now.Before(f.patience(wait)):
		return delivery.Awaited
	}
	return delivery.Overdue
}

// patience returns when the next response does not wait for an acknowledgement any longer.
func (f *flow) patience(wait time.Duration) time.Time {
	if len(f.flights) >= maxOutstanding {
		wait = max(wait, overflowWait)
	}
	return f.sentAt.Add(wait)
}

// open returns the lowest change of a store's content in the unacknowledged responses; zero if
// there is none.
func (f *flow) open(store *cache.Store) (lowest uint64) {
	var room [1]delivery.Part
	for i := range f.flights {
		for _, part := range f.flights[i].batch.Parts(room[:0]) {
			if part.Store == store && (lowest == 0 || part.Content.First < lowest) {
				lowest = part.Content.First
			}
		}
	}
	return lowest
}
