package cache

import (
	"cmp"
	"slices"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Client is one downstream stream's place in one store. Its methods are called by
// the stream's goroutine, one at a time.
type Client struct {
	// immutable after Join
	store *Store
	bell  chan<- struct{} // of a stream
	wake  func()          // of a reader of the relay's own, which has no bell
	form  Form

	// Guarded by Store.mu against the session; read and written under its read
	// lock by the client's own stream only.
	watches []*watch // in the order in which types are sent
	woken   bool     // on its way to the bell, and has not collected since
	late    []Late   // of a reader, until it takes: what nobody waits for any longer
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

// Join gives a stream a place in the store. bell is a channel with one slot; it
// is filled whenever there may be something to collect.
func (s *Store) Join(bell chan<- struct{}, form Form) *Client {
	return s.join(&Client{store: s, bell: bell, form: form})
}

func (s *Store) join(c *Client) *Client {
	s.mu.Lock()
	s.clients[c] = struct{}{}
	if c.reads() {
		s.readers++
	}
	s.mu.Unlock()
	return c
}

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

func (c *Client) notify() {
	if c.reads() {
		c.wake()
		return
	}
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

// Name is a resource name, a glob or "*" as a client says it.
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
	// Answer lists names whose subscription in another store ended while "*" is
	// subscribed here: they are answered from it (SUB-8). Elsewhere lists names that
	// are subscribed to in another store now: that answers them.
	Answer, Elsewhere []Name
	// Versions are what the client says it holds, by key; only with the first
	// request for the type on its stream (RES-11). Update takes the map.
	Versions map[string]string
	// VersionInfo is what a state-of-the-world client showed with its first request
	// for the type. It is to be given with every change until the first response is
	// sent: its holder has a list, which nothing that is incomplete may replace
	// (RES-2), and which is not sent again if it is current (ACK-5).
	VersionInfo string
	// Relist has the list of a full-state type sent although nothing changed.
	Relist bool
}

// Update carries out a change; the caller collects then, since the bell does not
// ring for it. It returns the names that were subscribed to and are not any more, for
// Answer in another store: globs, which are nothing that "*" could hold, are not
// among them. Names that never were subscribed to are ignored (SUB-7).
func (c *Client) Update(ch Change) []Name {
	s := c.store
	s.mu.Lock()
	w := c.watch(ch.TypeURL)
	for _, n := range ch.Subscribe {
		w.subscribe(n)
	}
	var gone []Name
	for _, n := range ch.Unsubscribe {
		if w.unsubscribe(n) && !keyer.IsGlob(n.Key) {
			gone = append(gone, n)
		}
	}
	// Nor are names that a glob keeps, which tells of them from now on (GLOB-5).
	gone = slices.DeleteFunc(gone, func(n Name) bool { return w.globFor(n.Key) != nil })
	for _, n := range ch.Answer {
		if w.wildcard != nil {
			w.answer(n)
		}
	}
	for _, n := range ch.Elsewhere {
		delete(w.answers, n.Key)
	}
	w.holds(ch.Versions)
	if ch.VersionInfo != "" && !w.listed {
		w.presented = ch.VersionInfo
	}
	w.relist = w.relist || (ch.Relist && w.full)
	if w.idle() {
		c.watches = slices.DeleteFunc(c.watches, func(o *watch) bool { return o == w })
	}
	s.mu.Unlock()
	s.cache.trim()
	return gone
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
		client: c, typeURL: typeURL, rank: RankOf(typeURL),
		full: c.form.State && c.store.source.FullState[typeURL],
	}
	at, _ := slices.BinarySearchFunc(c.watches, w, func(a, b *watch) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.typeURL, b.typeURL))
	})
	c.watches = slices.Insert(c.watches, at, w)
	return w
}
