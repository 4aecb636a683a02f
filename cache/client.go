package cache

import (
	"cmp"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Client is one downstream stream's place in one store. Its methods are called by
// the stream's goroutine, one at a time.
type Client struct {
	// immutable after Join
	store *Store
	wake  func() // has its owner collect
	form  Form
	own   bool        // a reader of the relay's own, and not a stream
	sub   *Subscriber // the stream with all its places; nil for who has no other

	// Guarded by Store.mu against the session; read and written under its read
	// lock by the client's own stream only.
	watches []*watch // in the order in which types are sent
	woken   bool     // it was woken, and has not collected since
	held    bool     // Held
	late    []Late   // of a reader, until it takes: what nobody waits for any longer
	located bool     // it has used dynamic parameters, and tells variants apart (DYN-1)
}

// Form is how a client is told of changes. The zero value is the incremental one.
type Form struct {
	// TTL says that the client can do resource ttl: it is sent ttls and heartbeats,
	// and drops by itself what expires (TTL-1, TTL-2).
	TTL bool
	// State is the state-of-the-world form: whole lists of full-state types (RES-2),
	// and of others what changed, without removals (RES-3).
	State bool
	// Wrapped has resources sent in a Resource in that form, with their name and
	// version: only for clients that announce that they know it (RES-13).
	Wrapped bool
}

// Join gives a stream a place in the store. wake is called whenever there may be
// something to collect, from any goroutine and while the store applies what it was told:
// it must neither block nor call the store itself.
func (s *Store) Join(wake func(), form Form) *Client {
	return s.join(&Client{store: s, wake: wake, form: form})
}

func (s *Store) join(c *Client) *Client {
	s.mu.Lock()
	s.clients[c] = struct{}{}
	if c.reads() {
		s.readers++
	}
	if len(s.clients) == 1 {
		s.signalDemand() // the session may have waited for somebody to come (UPS-2)
	}
	s.mu.Unlock()
	return c
}

// Store is where the place is.
func (c *Client) Store() *Store { return c.store }

// Leave ends it. What it watched alone stays cached until it is evicted (SUB-11).
func (c *Client) Leave() {
	s := c.store
	s.mu.Lock()
	for _, w := range c.watches {
		w.close()
	}
	c.watches = nil
	delete(s.clients, c)
	if c.reads() {
		s.readers--
	}
	s.mu.Unlock()
	s.cache.trim()
}

// Name is a resource name, a glob or "*" as a client says it. A name with dynamic
// parameters is a word in both (wire.Locator, DYN-1).
type Name struct {
	Spelling string // to the letter; what the client is answered with (NAME-4). "*" may be spelled "" (SUB-4).
	Key      string // canonical (keyer.Key)
}

// Change is what one request changes of a client's subscriptions to one type in
// one store.
type Change struct {
	TypeURL     string
	Subscribe   []Name
	Unsubscribe []Name
	// Versions are what the client says it holds, by key; only with the first
	// request for the type on its stream (RES-11). Update does not keep them.
	Versions wire.Versions
	// VersionInfo is what a state-of-the-world client showed with its first request
	// for the type. It is to be given with every change until the first response is
	// sent: its holder has a list, which nothing that is incomplete may replace
	// (RES-2), and which is not sent again if it is current (ACK-5).
	VersionInfo string
	// Distrust says that the client may have what it presents from another scope, whose
	// server may use the same versions for other contents (ACK-4). The client is sent
	// everything; what it presents says only which names it holds.
	Distrust bool
	// Relist has the list of a full-state type sent although nothing changed.
	Relist bool
}

// Update carries out a change; the caller collects then, since nobody is
// woken for it. Names that never were subscribed to are ignored (SUB-7). What ends is answered by
// what remains (SUB-8): where "*" begins in one store as names end in others, its change comes first.
func (c *Client) Update(ch Change) {
	s := c.store
	s.mu.Lock()
	begun := c.find(ch.TypeURL) == nil
	w := c.watch(ch.TypeURL)
	w.names.reserve(len(ch.Subscribe))
	for _, n := range ch.Subscribe {
		w.subscribe(n)
	}
	ended, globEnded := w.unsubscribeAll(ch.Unsubscribe)
	others := w.released(ended)
	w.bequeath()
	if ch.VersionInfo != "" && !w.listed {
		w.presented, w.led = ch.VersionInfo, true
		if ch.Distrust {
			w.presented = distrusted
		}
	}
	w.relist = w.relist || (ch.Relist && w.full)
	if w.idle() {
		c.watches = slices.DeleteFunc(c.watches, func(o *watch) bool { return o == w })
	}
	s.mu.Unlock()
	w.present(&ch.Versions, begun, ch.Distrust)
	w.tellStar(others, globEnded)
	if w.idle() {
		w.unlink()
	}
	s.cache.trim()
}

// find gives the watch for a type, nil if nothing is subscribed to. The set of
// watches changes in Update and Leave only, which the same goroutine calls.
func (c *Client) find(typeURL string) *watch {
	for _, w := range c.watches {
		if w.typeURL == typeURL {
			return w
		}
	}
	return nil
}

// watch finds or makes the watch for a type.
func (c *Client) watch(typeURL string) *watch {
	if w := c.find(typeURL); w != nil {
		return w
	}
	w := &watch{
		client: c, typeURL: typeURL, rank: RankOf(typeURL), begun: c.store.cache.now(),
		full: c.form.State && c.store.source.FullState[typeURL],
	}
	at, _ := slices.BinarySearchFunc(c.watches, w, func(a, b *watch) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.typeURL, b.typeURL))
	})
	c.watches = slices.Insert(c.watches, at, w)
	c.sub.link(w)
	if c.located {
		w.tellAll()
	}
	return w
}
