package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Info is one name on the admin port.
type Info struct {
	TypeURL    string
	Name       string
	Parameters map[string]string // dynamic ones; nil for none (DYN-1)
	Kind       string            // "wildcard" or "named": which of the type's two tables
	State      string            // unknown, present, absent, failed, transient
	Version    string
	Error      string
	Bytes      int
	Updated    time.Time // of the last change; zero if there was none
	Expires    time.Time // when its ttl runs out; zero if it has none (TTL-2)
	Watchers   int       // clients that subscribed to it by name
	Pins       int       // of what refers to it (Store.Pin)
	Collection string    // that it is a member of
	Resource   *wire.Resource
	// RestoredAsOf is when restored content of the store was last known to be current (SUR-1).
	RestoredAsOf time.Time
}

// Resources lists the entries of one type ("" for all) under one key ("" for all).
func (s *Store) Resources(typeURL, name string) []Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var infos []Info
	for key, t := range s.tables {
		if typeURL != "" && typeURL != key.typeURL {
			continue
		}
		if name != "" {
			if e := t.entries[name]; e != nil && !e.marks.Tombstone {
				infos = append(infos, infoOf(t, e))
			}
			if v := t.variants.of(name); v != nil {
				for e := range v.located {
					infos = append(infos, infoOf(t, e))
				}
			}
			continue
		}
		for _, e := range t.entries {
			if !e.marks.Tombstone {
				infos = append(infos, infoOf(t, e))
			}
		}
	}
	return infos
}

func infoOf(t *Table, e *Entry) Info {
	i := Info{
		TypeURL: t.typeURL, Name: wire.LocatedName(e.Name()), Parameters: wire.Parameters(e.key), Kind: t.kind.String(), State: e.state.String(),
		Watchers: e.extra.watchers(), Pins: t.demands.pins[e.key], Resource: e.res, RestoredAsOf: t.store.restored.asOf,
	}
	if e.res != nil {
		i.Version, i.Bytes = e.Version(), e.res.Size()
	}
	if e.Exists() && e.extra.life.HasTTL() {
		i.Expires = e.extra.life.deadline
	}
	if e.extra.err != nil {
		i.Error = e.extra.err.Code.String() + ": " + e.extra.err.Message
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
	Held          int   // losses that clients are not told yet (SUR-3)
	Frozen        bool  // an operator holds everything (GATE-4)
	FrozenNames   int   // names of which clients have something else than the server said last, because of that
	Followers     int   // cursors of clients in its collections
	Watchers      int64 // clients' subscriptions by name
	Pins          int   // names and globs that are pinned
	LeftOut       int   // names that the server is not asked for, because requests have no room for them (RES-17)

	Upkeep Upkeep
}

// Upkeep counts a table's memory beside its resources.
type Upkeep struct {
	Entries      int // names of which something is known or wanted
	Pending      int // names and collections of which the server is to be told something
	Unanswered   int // collections that were subscribed to since the last response
	Unsubscribed int // collections and names that were unsubscribed lately
	Aliased      int // resources that serve aliases (RES-10)
	Variants     int // names with variants (DYN-1)
	Errors       int // errors of collections, and of names in them (ERR-1)
	Retained     int // tombstones with content that lists may still hold (ADS-1)
	Lists        int // encoded lists
	Chunked      int // members in encoded chunks
	Waiting      int // cursors that the next change rings
	WaitingTTL   int // of these, cursors that heartbeats ring too
}

// upkeepOf counts it. It does not walk the entries.
func upkeepOf(t *Table) Upkeep {
	u := Upkeep{
		Entries: len(t.entries), Pending: len(t.demands.pending), Unanswered: len(t.upstream.unanswered), Unsubscribed: len(t.demands.unsubscribed),
		Aliased: len(t.aliases.served), Variants: len(t.variants.sets),
	}
	for _, c := range t.colls {
		u.Errors += c.errors.size()
		u.Retained += c.retained.tombstones
		u.Lists += c.encoded.lists.size()
		u.Chunked += c.encoded.chunks.size()
		plain, timed := c.waiters.size()
		u.Waiting, u.WaitingTTL = u.Waiting+plain+timed, u.WaitingTTL+timed
	}
	return u
}

// Stats counts every table.
func (s *Store) Stats() []TypeStats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	stats := make([]TypeStats, 0, len(s.tables))
	for key, t := range s.tables {
		st := TypeStats{
			TypeURL: key.typeURL, Kind: key.kind.String(),
			Subscriptions: t.demands.count, Collections: len(t.colls),
			Resources: t.usage.resources, Bytes: t.usage.bytes, Watchers: t.usage.watchers, Pins: len(t.demands.pins),
			LeftOut: t.demands.leftOut,
		}
		switch h := t.upstream.held; {
		case h.frozen():
			st.Frozen, st.FrozenNames = true, h.names.Len()
		case h.shown():
			st.Held = h.names.Losses()
		}
		if t.upstream.assigned {
			st.Stream = t.upstream.stream.String()
		}
		for _, c := range t.colls {
			st.Tombstones += c.log.tombstones.len
			st.Followers += len(c.followers)
		}
		st.Upkeep = upkeepOf(t)
		stats = append(stats, st)
	}
	return stats
}
