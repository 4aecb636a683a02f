package cache

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Image is what a store holds at one revision, for a disk or another relay (SUR-1). It refers to the store's
// immutable resources: it is cheap to take, and may be written without a lock.
type Image struct {
	Tables []TableImage
	Past   PastImage
	// AsOf is when the control plane was heard last, of content that was restored and not
	// confirmed since; zero if there is none.
	AsOf time.Time
	// Mark says whether the store changed since.
	Mark Mark
}

// Mark is a position in the changes of a store.
type Mark struct{ revision, heartbeats, completed uint64 }

// String is the same for the same mark, in one process.
func (m Mark) String() string { return fmt.Sprintf("%d-%d-%d", m.revision, m.heartbeats, m.completed) }

func markOf(j *journal) Mark { return Mark{j.revision, j.heartbeats, j.completed} }

// TableImage is one table.
type TableImage struct {
	TypeURL       string
	Kind          Kind
	SystemVersion string   // the server's last system_version_info
	VersionInfo   string   // the last version_info of a server of the state of the world
	Collections   []string // globs and "*" that the server is asked for
	Lacking       []string // those of which there may be more members
	Names         []string // names that the server is asked for, and that have content
	Resources     []ResourceImage
}

// CollectionOf is the glob or "*" that a resource is a member of, if it is one; "" for none.
func (t *TableImage) CollectionOf(r *wire.Resource) string {
	if t.Kind == WholeType {
		return Wildcard
	}
	key, err := keyer.Key(r.Name)
	if err != nil {
		return "" // no store has it
	}
	return keyer.GlobOf(key)
}

// ResourceImage is one resource. Its key is that of its own name. An alias is among the names.
type ResourceImage struct {
	Resource *wire.Resource
	Received time.Time // the last change
	Deadline time.Time // when the ttl runs out; zero without one
}

// Snapshots is a store as the keeper of its snapshots sees it. Any goroutine may call its methods.
type Snapshots struct{ store *Store }

// Snapshots returns the side of the store for a disk.
func (s *Store) Snapshots() Snapshots { return Snapshots{s} }

// Mark is that of the last change.
func (k Snapshots) Mark() Mark {
	s := k.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	return markOf(&s.journal)
}

// Restored is the number of resources from an earlier process that were not confirmed, and when
// they were last known to be current.
func (k Snapshots) Restored() (resources int, asOf time.Time) {
	s := k.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	for t := range s.restored.tables {
		resources += t.upstream.restored
	}
	return resources, s.restored.asOf
}

// Image takes what the store holds, except the types that leave says, and what the server said does
// not exist. Content that is not to be cached (TTL-5) is for no disk: package snapshot leaves it out.
func (k Snapshots) Image(leave func(typeURL string) bool) *Image {
	s := k.store
	s.applyMu.Lock() // which guards the past
	// It is held to the end: a change that came meanwhile would wait for mu, and have clients wait behind it that
	// only want to collect.
	defer s.applyMu.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := &Image{Mark: markOf(&s.journal), Past: s.changes.past.image()}
	for _, t := range slices.SortedFunc(maps.Values(s.tables), inOrder) {
		if leave(t.typeURL) {
			continue
		}
		if x := t.image(); len(x.Collections)+len(x.Names) > 0 {
			i.Tables = append(i.Tables, x)
		}
		if t.upstream.restored > 0 {
			i.AsOf = s.restored.asOf
		}
	}
	return i
}

func (t *Table) image() TableImage {
	i := TableImage{
		TypeURL: t.typeURL, Kind: t.kind, SystemVersion: t.serverVersions.system, VersionInfo: t.VersionInfo(),
		Resources: make([]ResourceImage, 0, t.usage.resources),
	}
	for key, c := range t.colls {
		i.Collections = append(i.Collections, key)
		if !c.hasWhole() {
			i.Lacking = append(i.Lacking, key)
		}
	}
	for key, e := range t.entries {
		if e.res == nil {
			continue
		}
		if e.extra.demand != nil && !e.res.DoNotCache {
			i.Names = append(i.Names, key)
		}
		if !e.marks.Alias {
			i.Resources = append(i.Resources, e.image())
		}
	}
	for key, served := range t.aliases.served {
		if e := t.entries[key]; (e == nil || e.res == nil) && served[0].res != nil {
			i.Resources = append(i.Resources, served[0].image())
		}
	}
	return i
}

func (e *Entry) image() ResourceImage {
	x := ResourceImage{Resource: e.res, Received: time.Unix(0, e.received)}
	if e.extra.life.HasTTL() {
		x.Deadline = e.extra.life.deadline
	}
	return x
}
