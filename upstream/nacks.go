package upstream

import (
	"hash/maphash"
	"maps"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// nackPause is the least time from one NACK to the next of the same content (SUR-8).
	nackPause = time.Second
	// maxSameNacks is how many times the same content is rejected because clients reject it. Then it is
	// acknowledged at once (ACK-7).
	maxSameNacks = 10
)

// nacks has the content that was rejected last, by type. A server may send it again as soon as it
// reads the NACK, and for ever: so the NACK of the same content waits. It belongs to the session's owner.
type nacks map[string]*nack

type nack struct {
	content uint64
	count   int       // NACKs of the content that were written
	at      time.Time // when the last one was
	waiting bool
	// If clients rejected the content: the changes of the Store that brought it, and whether a client is
	// sent it once more in parts.
	changes ack.Span
	parts   bool
	// The answer of the last response with the content waits. A server that sends further ones meanwhile
	// gets one NACK for all.
	envelope envelope
	reason   error
}

// wait reports whether an answer waits: the NACK of content that was rejected less than a second ago.
func (n *nacks) wait(e envelope, reason error, now time.Time) bool {
	switch last := (*n)[e.typeURL]; {
	case reason == nil:
		return false
	case n.same(e, reason):
		if now.Before(last.at.Add(nackPause)) {
			last.waiting, last.envelope, last.reason = true, e, reason
			return true
		}
		last.count++
		last.at, last.waiting, last.reason = now, false, nil
		return false
	}
	if *n == nil {
		*n = make(nacks)
	}
	if len(*n) >= maxTypes { // the server may invent types
		maps.DeleteFunc(*n, func(_ string, last *nack) bool { return !last.waiting })
	}
	if len(*n) < maxTypes {
		(*n)[e.typeURL] = &nack{content: e.content, count: 1, at: now}
	}
	return false
}

// same reports whether an answer is the NACK of the content that was rejected last.
func (n nacks) same(e envelope, reason error) bool {
	last := n[e.typeURL]
	return reason != nil && last != nil && last.content == e.content
}

// take returns the NACK of a type that waits, with its reason; nil if there is none.
func (n nacks) take(typeURL string, now time.Time) (e envelope, reason error) {
	last := n[typeURL]
	if last == nil || !last.waiting {
		return envelope{}, nil
	}
	reason = last.reason
	last.count++
	last.at, last.waiting, last.reason = now, false, nil
	return last.envelope, reason
}

// next is when the first NACK is due, zero if none waits.
func (n nacks) next() (at time.Time) {
	for _, last := range n {
		if last.waiting {
			at = notify.Earlier(at, last.at.Add(nackPause))
		}
	}
	return at
}

// due are the types of the NACKs that have waited long enough.
func (n nacks) due(now time.Time) (types []string) {
	for typeURL, last := range n {
		if last.waiting && !now.Before(last.at.Add(nackPause)) {
			types = append(types, typeURL)
		}
	}
	return types
}

var contentSeed = maphash.MakeSeed()

// contentSum tells the contents of responses apart, versions aside: a server may have a new one for the same content.
// Nor does the order count: a server may keep its resources in a map. Of a response that cannot be decoded the reason
// is all that there is.
func contentSum(r *wire.Received) (sum uint64) {
	var h maphash.Hash
	h.SetSeed(contentSeed)
	add := func(kind byte, name string, payload []byte) {
		h.Reset()
		_ = h.WriteByte(kind) // it never fails, and neither do these
		maphash.WriteComparable(&h, len(name))
		_, _ = h.WriteString(name)
		_, _ = h.Write(payload)
		sum += h.Sum64()
	}
	if r.Err != nil {
		add('e', r.Err.Error(), nil)
	}
	for _, res := range r.Resources {
		add('c', res.Name, res.Any())
	}
	for _, name := range r.Removed {
		add('r', name, nil)
	}
	return sum
}
