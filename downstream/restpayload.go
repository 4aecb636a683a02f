package downstream

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxPayloadBytes limits the bytes of payloads.
const maxPayloadBytes = 64 << 20

// payloadsRest is how long payloads are kept while nobody polls (LIM-3). Clients poll again at once, or
// within seconds.
const payloadsRest = 10 * time.Second

// payloads caches resources' payloads as JSON. Making one costs far more than sending it, and all
// clients that poll need a changed resource at once.
type payloads struct {
	limit int

	mu    sync.Mutex
	lru   *simplelru.LRU[*wire.Resource, *payload] // guarded by mu
	bytes int                                      // guarded by mu
	polls int                                      // that are held; guarded by mu
	idle  *time.Timer                              // guarded by mu; nil: there was always a poll
}

// payload is one resource as JSON, or the error.
type payload struct {
	once       sync.Once
	transcoded *restjson.Transcoded
	err        error
	logged     atomic.Bool
	writers    atomic.Int64 // texts that have it

	size int // guarded by payloads.mu; 0 until it is made
}

func newPayloads(limit int) *payloads {
	return &payloads{limit: limit, lru: newLRU[*wire.Resource, *payload](math.MaxInt)}
}

// of returns the payload of a resource. The first caller makes it, without holding mu.
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

// enter tells of a poll that is held.
func (c *payloads) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls++
}

// leave tells that a poll ends. After the last one the payloads are forgotten in a while.
func (c *payloads) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls--
	switch {
	case c.polls > 0 || c.lru.Len() == 0:
	case c.idle == nil:
		c.idle = time.AfterFunc(payloadsRest, c.forget)
	default:
		c.idle.Reset(payloadsRest)
	}
}

// forget drops everything, unless somebody polls again. The next poll's end has it called once more.
func (c *payloads) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.polls == 0 {
		c.lru, c.bytes = newLRU[*wire.Resource, *payload](math.MaxInt), 0
	}
}

// weigh counts the bytes of a payload and of its resource, which the payload keeps in memory. Beyond
// the limit it drops the least recently used payloads.
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

// log reports whether the log has to have a line. It has one for each payload.
func (p *payload) log() bool { return p.logged.CompareAndSwap(false, true) }
