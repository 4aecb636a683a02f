package downstream

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxPayloadBytes bounds what is kept of payloads as JSON.
const maxPayloadBytes = 64 << 20

// payloads keeps resources' payloads as JSON, those that were used last: making one
// costs far more than sending it, and a change goes to all that poll at once.
type payloads struct {
	limit int

	mu    sync.Mutex
	lru   *simplelru.LRU[*wire.Resource, *payload] // guarded by mu
	bytes int                                      // guarded by mu
}

// payload is one as JSON, or why there is none.
type payload struct {
	once       sync.Once
	transcoded *restjson.Transcoded
	err        error
	told       atomic.Bool

	size int // guarded by payloads.mu; 0 until it is made
}

func newPayloads(limit int) *payloads {
	lru, err := simplelru.NewLRU[*wire.Resource, *payload](math.MaxInt, nil)
	if err != nil {
		panic("downstream: " + err.Error()) // only for a size below one
	}
	return &payloads{limit: limit, lru: lru}
}

// of gives the payload of a resource. It is made once, by whoever asks first, with
// no lock held that others need.
func (c *payloads) of(r *wire.Resource) *payload {
	c.mu.Lock()
	p, ok := c.lru.Get(r)
	if !ok {
		p = new(payload)
		c.lru.Add(r, p)
	}
	c.mu.Unlock()
	p.once.Do(func() {
		p.transcoded, p.err = restjson.Transcode(r)
		c.weigh(r, p)
	})
	return p
}

// weigh counts what a payload takes, with the resource that it keeps from being
// let go, and drops what was not used for longest.
func (c *payloads) weigh(r *wire.Resource, p *payload) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.lru.Peek(r); !ok || kept != p {
		return // dropped before it was made
	}
	p.size = r.Size()
	if p.transcoded != nil {
		p.size += p.transcoded.Size()
	}
	c.bytes += p.size
	for c.bytes > c.limit {
		_, oldest, ok := c.lru.RemoveOldest()
		if !ok {
			return
		}
		c.bytes -= oldest.size
	}
}

// tell reports whether nobody was told of it yet.
func (p *payload) tell() bool { return p.told.CompareAndSwap(false, true) }
