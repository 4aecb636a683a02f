package cache

import (
	"iter"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Info is what the admin port shows of one name.
type Info struct {
	TypeURL    string
	Name       string
	Parameters map[string]string // dynamic ones; nil for none (DYN-1)
	Kind       string            // "wildcard" or "named": which of the type's two tables
	State      string            // unknown, present, absent, failed, relayed
	Version    string
	Error      string
	Bytes      int
	Updated    time.Time // of the last change; zero if there was none
	Expires    time.Time // when its ttl runs out; zero if it has none (TTL-2)
	Watchers   int       // clients that subscribed to it by name
	Pins       int       // of what refers to it (Store.Pin)
	Collection string    // that it is a member of
	Resource   *wire.Resource
}

// Resources lists the entries of one type ("" for all) under one key ("" for
// all).
func (s *Store) Resources(typeURL, name string) []Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var infos []Info
	for key, t := range s.tables {
		if typeURL != "" && typeURL != key.typeURL {
			continue
		}
		if name != "" {
			if e := t.entries[name]; e != nil && !e.dead {
				infos = append(infos, t.info(e))
			}
			if v := t.variants.of(name); v != nil {
				for e := range v.located {
					infos = append(infos, t.info(e))
				}
			}
			continue
		}
		for _, e := range t.entries {
			if !e.dead {
				infos = append(infos, t.info(e))
			}
		}
	}
	return infos
}

func (t *table) info(e *entry) Info {
	i := Info{
		TypeURL: t.typeURL, Name: wire.LocatedName(e.name()), Parameters: wire.Parameters(e.key), Kind: t.kind.String(), State: e.state.String(),
		Watchers: len(e.subs), Pins: t.pins[e.key], Resource: e.res,
	}
	if e.res != nil {
		i.Version, i.Bytes = e.version(), e.res.Size()
	}
	if e.there() && e.life.hasTTL() {
		i.Expires = e.life.deadline
	}
	if e.err != nil {
		i.Error = e.err.Code.String() + ": " + e.err.Message
	}
	if e.received != 0 {
		i.Updated = time.Unix(0, e.received)
	}
	if e.coll != nil {
		i.Collection = e.coll.key
	}
	return i
}

// TypeStats counts one table.
type TypeStats struct {
	TypeURL       string
	Kind          string
	Stream        string // the upstream stream that carries it (wire.StreamID); "": none
	Subscriptions int    // names and collections that the server is asked for
	Collections   int
	Resources     int64
	Bytes         int64
	Tombstones    int
	Followers     int   // cursors of clients in its collections
	Watchers      int64 // clients' subscriptions by name
	Pins          int   // names and globs that are pinned
}

// Stats counts every table.
func (s *Store) Stats() []TypeStats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	stats := make([]TypeStats, 0, len(s.tables))
	for key, t := range s.tables {
		st := TypeStats{
			TypeURL: key.typeURL, Kind: key.kind.String(),
			Subscriptions: t.interests, Collections: len(t.colls),
			Resources: t.resources, Bytes: t.bytes, Watchers: t.watchers, Pins: len(t.pins),
		}
		if t.assigned {
			st.Stream = t.stream.String()
		}
		for _, c := range t.colls {
			st.Tombstones += c.tombs.len
			st.Followers += len(c.followers)
		}
		stats = append(stats, st)
	}
	return stats
}

// Watches is the number of the client's subscriptions to a type: names, globs
// and "*".
func (c *Client) Watches(typeURL string) int {
	w := c.find(typeURL)
	if w == nil {
		return 0
	}
	n := w.names.len() + len(w.globs)
	if w.wildcard != nil {
		n++
	}
	return n
}

// Subscribed reports whether the client subscribes to a name, a glob or "*", as it
// is spelled.
func (c *Client) Subscribed(typeURL, spelling string) bool {
	w := c.find(typeURL)
	switch {
	case w == nil:
		return false
	case spelling == Wildcard:
		return w.wildcard != nil
	}
	return w.names.get(spelling) != nil || w.globs[spelling] != nil
}

// Subscriptions are all that the client subscribes to of a type, as it spells them.
// They must not be changed meanwhile.
func (c *Client) Subscriptions(typeURL string) iter.Seq[string] {
	return func(yield func(string) bool) {
		w := c.find(typeURL)
		if w == nil || (w.wildcard != nil && !yield(Wildcard)) {
			return
		}
		for sub := range w.names.all() {
			if !yield(sub.spelling) {
				return
			}
		}
		for spelling := range w.globs {
			if !yield(spelling) {
				return
			}
		}
	}
}
