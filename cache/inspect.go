package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Info is one name on the admin port.
type Info struct {
	TypeURL      string         `json:"type_url"`
	Name         string         `json:"name"`
	Kind         string         `json:"kind"`                    // "wildcard" or "named": which of the type's two tables
	State        string         `json:"state"`                   // unknown, present, absent, failed
	RestoredAsOf time.Time      `json:"restored_as_of,omitzero"` // when content of an earlier process was known to be current; zero once it is confirmed (SUR-1)
	Version      string         `json:"version,omitempty"`
	Error        string         `json:"error,omitempty"`
	Bytes        int            `json:"bytes,omitempty"`
	Updated      time.Time      `json:"updated,omitzero"` // of the last change; zero if there was none
	Expires      time.Time      `json:"expires,omitzero"` // when its ttl runs out; zero if it has none (TTL-2)
	Watchers     int            `json:"watchers"`         // clients that subscribed to it by name
	Pins         int            `json:"pins,omitempty"`   // of what refers to it (Store.Pin)
	Collection   string         `json:"collection,omitempty"`
	Resource     *wire.Resource `json:"-"`
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
				infos = append(infos, t.info(e))
			}
			continue
		}
		for _, e := range t.entries {
			if !e.marks.Tombstone {
				infos = append(infos, t.info(e))
			}
		}
	}
	return infos
}

func (t *Table) info(e *Entry) Info {
	i := Info{
		TypeURL: t.typeURL, Name: e.Name(), Kind: t.kind.String(), State: e.state.String(),
		Watchers: e.extra.watchers(), Pins: t.demands.pins[e.key], Resource: e.res,
	}
	if e.res != nil {
		i.Version, i.Bytes = e.Version(), e.res.Size()
		if e.res.Restored() {
			i.RestoredAsOf = t.store.restored.asOf
		}
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

// TypeStats counts one table. The admin port shows it.
type TypeStats struct {
	TypeURL       string `json:"type_url"`
	Kind          string `json:"kind"`             // wildcard, or named: names and globs
	Stream        string `json:"stream,omitempty"` // the upstream stream that carries it (wire.StreamID); "": none
	Subscriptions int    `json:"subscriptions"`    // names and collections that the server is asked for
	Collections   int    `json:"collections"`
	Resources     int64  `json:"resources"`
	Bytes         int64  `json:"bytes"`
	Tombstones    int    `json:"tombstones"`
	Followers     int    `json:"followers"`           // cursors of clients in its collections
	Watchers      int64  `json:"watchers"`            // clients' subscriptions by name
	Held          int    `json:"held,omitempty"`      // losses that clients are not told yet (SUR-3)
	WentBack      int    `json:"went_back,omitempty"` // resources whose content went back with the present upstream stream (SUR-7)
	Frozen        bool   `json:"-"`                   // an operator holds everything (GATE-4)
	FrozenNames   int    `json:"-"`                   // names of which clients have something else than the server said last, because of that
	Pins          int    `json:"pins"`                // names and globs that are pinned
	LeftOut       int    `json:"left_out,omitempty"`  // names that the server is not asked for, because requests have no room for them (RES-17)
	Upkeep        Upkeep `json:"upkeep"`
}

// Upkeep counts a table's memory beside its resources.
type Upkeep struct {
	Entries      int `json:"entries"`             // names of which something is known or wanted
	Pending      int `json:"pending"`             // names and collections of which the server is to be told something
	Unanswered   int `json:"unanswered"`          // collections that were subscribed to since the last response
	Unsubscribed int `json:"recent_unsubscribes"` // collections and names that were unsubscribed lately
	Aliased      int `json:"aliased"`             // resources that serve aliases (RES-10)
	Errors       int `json:"errors"`              // errors of collections, and of names in them (ERR-1)
	Retained     int `json:"retained"`            // tombstones with content that lists may still hold (ADS-1)
	Lists        int `json:"lists"`               // encoded lists
	Chunked      int `json:"chunked"`             // members in encoded chunks
	Waiting      int `json:"waiting"`             // cursors that the next change rings
	WaitingTTL   int `json:"waiting_ttl"`         // of these, cursors that heartbeats ring too
}

// upkeep counts it. It does not walk the entries.
func (t *Table) upkeep() Upkeep {
	u := Upkeep{
		Entries: len(t.entries), Pending: len(t.demands.pending), Unanswered: len(t.upstream.unanswered), Unsubscribed: len(t.demands.unsubscribed),
		Aliased: len(t.aliases.served),
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
			LeftOut: t.demands.leftOut, WentBack: t.upstream.back.count(),
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
		st.Upkeep = t.upkeep()
		stats = append(stats, st)
	}
	return stats
}
