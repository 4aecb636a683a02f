package relay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/metrics"
)

const (
	// offFor is how long the relay writes no snapshots after it could not write one.
	offFor = 5 * time.Minute
	// refreshAfter is how often an unchanged store is written again, so that its file does not
	// seem to be one that nobody asks for (snapshot.MaxAge).
	refreshAfter = 24 * time.Hour
	// tidyEvery is after how many rounds old files are looked for.
	tidyEvery = 10
)

// snapshots keeps what stores hold on a disk, and restores it (SUR-1). A nil *snapshots keeps
// nothing.
type snapshots struct {
	// immutable
	folder  *snapshot.Folder
	log     *slog.Logger
	metrics *metrics.Snapshots
	found   map[string]bool // upstreams with snapshots at the start
	panics  *logs.Panics
	suspect func(*cache.Store) // see hub
	hurry   chan struct{}      // one slot: snapshots are to be written now
	secrets *payload.Secrets   // what is not written

	every atomic.Int64 // time.Duration
	limit atomic.Int64 // of all files in bytes

	mu  sync.Mutex
	off time.Time // when the last write failed; zero if it did not
}

// onDisk is what is known of the snapshot of one session. Before ready only the session's own
// goroutine touches it, and afterwards only a goroutine that holds mu.
type onDisk struct {
	id    string // immutable; "": the session has no snapshot
	ready atomic.Bool

	mu      sync.Mutex
	saved   cache.Mark
	written time.Time
	dropped bool // the store is of no use: nothing of it is written any more
}

// openSnapshots opens the folder of snapshots. The result is nil if none is configured.
func (r *Relay) openSnapshots(d files.Disk, path string) (*snapshots, error) {
	if path == "" {
		return nil, nil
	}
	if d == nil {
		d = files.OS{}
	}
	folder, err := snapshot.Open(d, path)
	if errors.Is(err, files.ErrLocked) {
		return nil, fmt.Errorf("cache.dir: %w: is another relay running with %s?", err, path)
	}
	if err != nil {
		return nil, fmt.Errorf("cache.dir: %w", err)
	}
	s := &snapshots{folder: folder, log: r.log, metrics: r.metrics.Snapshots(), found: make(map[string]bool), panics: r.panics, suspect: r.repairs.suspects.add, hurry: notify.New(), secrets: r.secrets}
	files, err := folder.Headers()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cache.dir: %w", err), folder.Close())
	}
	for _, f := range files {
		if f.Err == nil {
			s.found[f.Header.Upstream] = true
		}
	}
	return s, nil
}

// configure sets what a reload may change.
func (s *snapshots) configure(every time.Duration, limit int64) {
	if s != nil {
		s.every.Store(int64(every))
		s.limit.Store(limit)
	}
}

// has reports whether there were snapshots of an upstream at the start: its clients can be
// served although it was never reached.
func (s *snapshots) has(upstream string) bool { return s != nil && s.found[upstream] }

// any reports whether there were snapshots at the start.
func (s *snapshots) any() bool { return s != nil && len(s.found) > 0 }

// idOf identifies the store of a session on the disk: by everything that decides what a control
// plane sends for it. "" if it is not kept: files are on a disk already, and the relay's own names
// come from other stores. Values of clients' metadata are in it as a hash of a hash only.
func (s *snapshots) idOf(key sessionKey, p *plane) string {
	if s == nil {
		return ""
	}
	return storeID(key, p)
}

// storeID identifies the store of a session in all processes: on a disk, and to peers. It is "" for
// files and for names that the relay resolves.
func storeID(key sessionKey, p *plane) string {
	if key.resolved || p.files != nil {
		return ""
	}
	return snapshot.ID(
		"store", key.plane, strconv.FormatBool(p.source.State), strconv.FormatBool(p.source.PerType),
		key.scope, key.basis, key.forwarded,
	)
}

// restore fills the store of a session that begins, before its control plane is asked.
func (s *snapshots) restore(x *session) {
	defer x.disk.ready.Store(true)
	if s == nil || x.disk.id == "" {
		return
	}
	log := s.log.With("upstream", x.key.plane, "scope", x.key.scope)
	began := time.Now()
	h, image, err := s.folder.Load(x.disk.id)
	if _, corrupt := errors.AsType[*snapshot.CorruptError](err); corrupt {
		s.metrics.Corrupt()
		log.Error("a snapshot is corrupt: the relay put it aside and begins without it", "error", err)
		return
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		s.metrics.Unreadable()
		log.Warn("a snapshot cannot be read: the relay begins without it", "error", err)
		return
	}
	n := x.store.Snapshots().Restore(image, h.AsOf)
	x.disk.saved, x.disk.written = x.store.Snapshots().Mark(), h.Written
	s.metrics.Restored(n)
	log.Info("restored a snapshot", "resources", n, "as_of", h.AsOf, "took", time.Since(began))
}

// save writes the snapshot of a session if it changed since the last one.
func (s *snapshots) save(x *session) {
	if s == nil || x.disk.id == "" || !x.disk.ready.Load() {
		return
	}
	x.disk.mu.Lock()
	defer x.disk.mu.Unlock()
	now := time.Now()
	if x.disk.dropped || s.isOff(now) || (x.store.Snapshots().Mark() == x.disk.saved && (x.disk.written.IsZero() || now.Sub(x.disk.written) < refreshAfter)) {
		return
	}
	image := x.store.Snapshots().Image(s.secrets.Has)
	if len(image.Tables) == 0 && x.disk.written.IsZero() {
		return // it holds nothing, and never did
	}
	h := &snapshot.Header{
		ID: x.disk.id, Upstream: x.key.plane, Scope: x.key.scope, Written: now, Secrets: s.secrets, AsOf: notify.Earlier(x.client.connectedAt(now), image.AsOf),
	}
	counts, err := s.folder.Save(h, image)
	if err != nil {
		s.turnOff(now, err)
		return
	}
	x.disk.saved, x.disk.written = image.Mark, now
	s.metrics.Written(counts.Bytes)
	s.turnOn()
}

// drop puts the snapshot of a session aside whose store is inconsistent after a panic, and has no
// other one written: what made the store so may be in it, and the next store would restore it.
func (s *snapshots) drop(x *session) {
	if s == nil || x.disk.id == "" {
		return
	}
	x.disk.mu.Lock()
	defer x.disk.mu.Unlock()
	x.disk.dropped = true
	if err := s.folder.PutAside(x.disk.id); err != nil {
		s.log.Error("a snapshot that may be of an inconsistent store cannot be put aside", "upstream", x.key.plane, "scope", x.key.scope, "error", err)
	}
}

// trySave is save. A panic costs the one snapshot, and has the store checked.
func (s *snapshots) trySave(x *session) {
	if s.panics.Do(logs.PartBackground, func() { s.save(x) }) != nil {
		s.suspect(x.store)
	}
}

func (s *snapshots) isOff(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.off.IsZero() && now.Sub(s.off) < offFor
}

// turnOff has the relay write nothing for a while. Clients notice nothing.
func (s *snapshots) turnOff(now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = now
	s.metrics.Off()
	s.log.Error("the relay cannot write a snapshot and writes none for now", "error", err, "again_in", offFor)
}

func (s *snapshots) turnOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.off.IsZero() {
		s.off = time.Time{}
		s.log.Info("the relay writes snapshots again")
	}
}

// run writes the snapshots of changed sessions until ctx ends.
func (s *snapshots) run(ctx context.Context, sessions func() []*session) {
	if s == nil {
		return
	}
	for round := 0; ; round++ {
		every := time.Duration(s.every.Load())
		select {
		case <-ctx.Done():
			return
		case <-s.hurry:
		case <-time.After(every*4/5 + rand.N(every*2/5)): //nolint:gosec // spreading, not secrecy
		}
		for _, x := range sessions() {
			if ctx.Err() != nil {
				return
			}
			s.trySave(x)
		}
		if round%tidyEvery == 0 {
			s.tidy(sessions)
		}
	}
}

// soon has the snapshots of changed sessions written now: an operator chose what is released.
func (s *snapshots) soon() {
	if s != nil {
		notify.Signal(s.hurry)
	}
}

// tidy removes files of stores that nobody asks for any more. It looks at the sessions when it has
// the folder: one that begins meanwhile has not read its file yet.
func (s *snapshots) tidy(sessions func() []*session) {
	open := sync.OnceValue(func() map[string]bool {
		all := make(map[string]bool)
		for _, x := range sessions() {
			all[x.disk.id] = true
		}
		return all
	})
	n, err := s.folder.Tidy(time.Now(), s.limit.Load(), func(id string) bool { return open()[id] })
	if err != nil {
		s.log.Warn("old snapshots cannot be removed", "error", err)
	}
	if n > 0 {
		s.log.Info("removed snapshots that nobody asked for any more", "files", n)
	}
}

// end writes the last snapshots.
func (s *snapshots) end(sessions []*session) {
	if s == nil {
		return
	}
	for _, x := range sessions {
		s.trySave(x)
	}
}

// close releases the folder. No session runs any more.
func (s *snapshots) close() {
	if s == nil {
		return
	}
	if err := s.folder.Close(); err != nil {
		s.log.Warn("the folder of snapshots cannot be closed", "error", err)
	}
}
