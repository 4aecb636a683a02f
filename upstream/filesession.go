package upstream

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// FileSession feeds one Store from files: what is wanted is answered at once, and
// told anew when the files of its type change. The Store must have streams per type
// (cache.Source.PerType), so that a change concerns one table.
type FileSession struct {
	// Immutable after NewSession.
	files *Files
	store Store
	*report
	woken chan struct{} // one slot: there is another view, or another problem

	started atomic.Bool

	// Owned by the goroutine in Run.
	lines map[wire.StreamID]*fileLine
	left  map[wire.StreamID]*fileLine // by a session before, and not taken up yet
}

// fileLine is one of the Store's streams, that is a table of a type.
type fileLine struct {
	id     wire.StreamID
	wanted map[string]struct{} // canonical names, with parameters or without, globs and "*"
	// located counts the wanted ones with parameters, by the name alone.
	located map[string]int
	taken   bool      // over from a session before: the Store has lost the stream since
	told    *fileType // what the Store was told of last, nil if it was told nothing
	whole   bool      // ... and that there is nothing else
	// kept is what is wanted and not in the files any more, of a type that is not
	// full-state: it stays with those who have it (RES-8).
	kept map[string]*wire.Resource
	// lives are the ttls of what the Store was told, by canonical name.
	lives map[string]fileLife
}

// NewSession makes a session. It does nothing until Run is called. No node is needed,
// since files say the same to everybody.
func (f *Files) NewSession(cfg SessionConfig) (*FileSession, error) {
	if cfg.Store == nil {
		return nil, fmt.Errorf("upstream %q: a session needs a store", f.cfg.Name)
	}
	return &FileSession{
		files: f, store: cfg.Store, lines: make(map[wire.StreamID]*fileLine),
		report: newReport(f.cfg.Name, f.cfg.Path, f.cfg.Logger, cfg), woken: make(chan struct{}, 1),
	}, nil
}

// Succeed has the session go on with what another one has told the Store, whose Run has
// returned: perhaps it read other files. What is missing from the present ones, of a type
// that is not full-state, stays with those who have it (RES-8). It comes before Run.
func (s *FileSession) Succeed(before *FileSession) {
	s.left = make(map[wire.StreamID]*fileLine)
	maps.Copy(s.left, before.left)
	maps.Copy(s.left, before.lines)
}

// Tell does nothing: files have nobody who could be told (ACK-7).
func (s *FileSession) Tell(verdict.Word) {}

// Run feeds the Store until ctx ends, whose error it returns, or until the Files are
// closed (ErrClosed). It can be called once.
func (s *FileSession) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return errRunning
	}
	f := s.files
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	f.mu.Lock()
	f.sessions[s] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.sessions, s)
		f.mu.Unlock()
		for id := range s.lines {
			s.store.Lost(id)
		}
		s.turn(StateIdle)
	}()
	return s.loop(ctx)
}

func (s *FileSession) loop(ctx context.Context) error {
	var batch <-chan time.Time
	settle := time.NewTimer(time.Hour)
	defer settle.Stop()
	for {
		if batch == nil {
			s.reconcile()
		}
		// What files give a ttl runs out by itself (TTL-2).
		settle.Stop()
		if at := s.store.Settle(time.Now()); !at.IsZero() {
			settle.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.files.closing:
			return ErrClosed
		case <-s.woken:
		case <-s.store.DemandChanged():
			// What comes in the next few milliseconds is answered together.
			if batch == nil {
				batch = time.After(s.files.cfg.Batch)
			}
		case <-batch:
			batch = nil
		case <-settle.C:
		}
	}
}

// reconcile tells the Store what it wants to know and was not told.
func (s *FileSession) reconcile() {
	view := s.files.view.Load()
	wanted := s.store.Streams()
	if view.read {
		for _, id := range wanted {
			s.serve(s.line(id), view)
		}
		s.left = nil // of the rest nothing is wanted
	}
	maps.DeleteFunc(s.lines, func(id wire.StreamID, _ *fileLine) bool {
		if s.store.StreamWanted(id) {
			return false
		}
		s.store.Lost(id)
		return true
	})
	s.publish(view, len(s.lines) > 0 || (!view.read && len(wanted) > 0))
}

// line finds the line of a stream, or begins it.
func (s *FileSession) line(id wire.StreamID) *fileLine {
	l := s.lines[id]
	if l != nil {
		return l
	}
	if l = s.left[id]; l != nil {
		l.taken = true
	} else {
		l = &fileLine{id: id}
	}
	s.lines[id] = l
	return l
}

// serve brings one table up to date.
func (s *FileSession) serve(l *fileLine, view *fileView) {
	now := view.typeOf(l.id.TypeURL)
	s.keep(l, now) // by what was wanted until now: nobody else had it
	names, globs, changed := s.demand(l)
	l.renew(now, names)
	switch {
	case len(l.wanted) == 0:
	case !view.complete && (l.told != now || changed):
		s.add(l, now)
	case !view.complete:
	case l.told != now || !l.whole || globs:
		s.tell(l, now)
	case len(names) > 0:
		s.answer(l, now, names)
	}
}

// demand takes what changed of what is wanted, if anything did. names are those that are
// new, and globs says that a glob or "*" is.
func (s *FileSession) demand(l *fileLine) (names []string, globs, changed bool) {
	var subs []wire.Subscription
	ok := false
	if l.wanted != nil && !l.taken {
		if subs, ok = s.store.TakeDemand(l.id); !ok {
			s.store.Lost(l.id)
		}
	}
	if !ok {
		// "*" is wanted again after it was let go, and all that it had brought with it;
		// or the stream begins anew with another session, and nothing was let go.
		before := *l
		*l = fileLine{id: l.id, wanted: make(map[string]struct{}), located: make(map[string]int)}
		if before.taken {
			l.kept = before.kept
		}
		subs = s.store.Restart(l.id, 0)
	}
	names, globs = l.take(subs)
	return names, globs, len(subs) > 0
}

// fileKey is the key of a name, with parameters or without.
func fileKey(name string) (string, error) {
	key, err := keyer.Key(wire.LocatedName(name))
	return wire.Respell(name, key), err
}

// want and let keep the set of what is wanted.
func (l *fileLine) want(key string) {
	if _, ok := l.wanted[key]; ok {
		return
	}
	l.wanted[key] = struct{}{}
	if wire.IsLocator(key) {
		l.located[wire.LocatedName(key)]++
	}
}

func (l *fileLine) let(key string) {
	if _, ok := l.wanted[key]; !ok {
		return
	}
	delete(l.wanted, key)
	if name := wire.LocatedName(key); wire.IsLocator(key) {
		if l.located[name]--; l.located[name] == 0 {
			delete(l.located, name)
		}
	}
}

// take notes what is wanted from now on.
func (l *fileLine) take(subs []wire.Subscription) (names []string, globs bool) {
	for _, sub := range subs {
		for _, name := range sub.Unsubscribe {
			if key, err := fileKey(name); err == nil {
				l.let(key)
			}
		}
		if len(sub.Unsubscribe) > 0 {
			l.endLives()
		}
		for _, name := range sub.Subscribe {
			key, err := fileKey(name)
			if err != nil {
				continue // it was asked for under it, so it has one
			}
			l.want(key)
			names, globs = append(names, name), globs || collection(key)
		}
	}
	maps.DeleteFunc(l.kept, func(key string, _ *wire.Resource) bool { return !l.wants(key) })
	return names, globs
}

// tell gives the Store all that is wanted of the type, and that there is nothing else.
func (s *FileSession) tell(l *fileLine, now *fileType) {
	resources := now.covered(l.wanted)
	maps.Copy(resources, l.kept)
	at := time.Now()
	r := &wire.StateResponse{
		TypeURL: l.id.TypeURL, VersionInfo: now.state.VersionInfo, Complete: true,
		Resources: l.timed(resources, at, true), Errors: l.errors(now),
	}
	s.count(l, r.Resources, 0, at)
	s.judge(l, s.store.ApplyState(l.id, r, at), at)
	l.told, l.whole = now, true
}

// errors are those of what is asked for (ERR-1).
func (l *fileLine) errors(now *fileType) []wire.ResourceError {
	var errs []wire.ResourceError
	for key, e := range now.errors {
		if l.wants(key) {
			errs = append(errs, *e)
		}
	}
	return errs
}

// keep works out what stays though it is not in the files any more.
func (s *FileSession) keep(l *fileLine, now *fileType) {
	if l.told == nil || l.told == now || s.files.cfg.FullState[l.id.TypeURL] {
		return
	}
	before := l.told.covered(l.wanted)
	maps.Copy(before, l.kept)
	l.kept = make(map[string]*wire.Resource)
	for key, r := range before {
		// Of variants none stays: it could be in the way of those that took its place.
		if now.byKey[key] == nil && !now.gone(key) && l.wants(key) && !r.Constrained() {
			l.kept[key] = r
		}
	}
}

// wants reports whether a canonical name is asked for, by itself or by what covers it.
func (l *fileLine) wants(key string) bool {
	if _, ok := l.wanted[key]; ok || l.located[key] > 0 {
		return true
	}
	cover := wildcard
	if keyer.IsXDSTP(key) {
		cover = keyer.GlobOf(key)
	}
	_, ok := l.wanted[cover]
	return ok
}

// answer tells the Store of names that are new, and of nothing else: with many
// thousands of names asked for one by one it would have to look at all of them for
// each.
func (s *FileSession) answer(l *fileLine, now *fileType, names []string) {
	r, at := &wire.DeltaResponse{TypeURL: l.id.TypeURL}, time.Now()
	listed := make(map[*wire.Resource]bool, len(names)) // one may have several names (RES-10)
	gone := make(map[string]bool)                       // one may be asked for with several sets of parameters
	told := make(map[*wire.ResourceError]bool)
	for _, name := range names {
		key, err := fileKey(name)
		if err != nil {
			continue // take has passed over it
		}
		found, plain := now.named(key), wire.LocatedName(key)
		if kept := l.kept[plain]; len(found) == 0 && kept != nil {
			found = append(found, kept)
		}
		failed := now.errors[plain]
		if failed != nil && !told[failed] {
			told[failed] = true
			r.Errors = append(r.Errors, *failed)
		}
		if len(found) == 0 && failed == nil && !gone[plain] {
			gone[plain] = true
			r.Removed = append(r.Removed, wire.LocatedName(name))
		}
		for _, resource := range found {
			if !listed[resource] {
				listed[resource] = true
				r.Resources = append(r.Resources, resource)
				l.begin(resource, at)
			}
		}
	}
	s.count(l, r.Resources, len(r.Removed), at)
	s.judge(l, s.store.Apply(l.id, r, at), at)
}

// add tells the Store what there is. What there is not may be in a file that has never
// been valid: nothing is said of it (RES-2).
func (s *FileSession) add(l *fileLine, now *fileType) {
	at := time.Now()
	resources := l.timed(now.covered(l.wanted), at, false)
	l.told, l.whole = now, false
	errs := l.errors(now)
	if len(resources)+len(errs) == 0 {
		return
	}
	s.count(l, resources, 0, at)
	s.judge(l, s.store.Apply(l.id, &wire.DeltaResponse{TypeURL: l.id.TypeURL, Resources: resources, Errors: errs}, at), at)
}

// count counts what the Store is told as a response.
func (s *FileSession) count(l *fileLine, resources []*wire.Resource, removed int, now time.Time) {
	bytes := 0
	for _, r := range resources {
		bytes += r.Size()
	}
	s.note(func(st *Status) { st.Responses++; st.LastResponse = now })
	s.obs.ResponseReceived(l.id.TypeURL, len(resources), removed, bytes)
}

// judge notes that the Store could not take something (ACK-6). What is cached stays.
func (s *FileSession) judge(l *fileLine, err error, at time.Time) {
	if err == nil {
		return
	}
	l.lives = nil // nobody knows what of it was taken
	s.log.Warn("state of the files rejected", "type", l.id.TypeURL, "cached", cached(err), "error", detail(err))
	rejected := &RejectedError{TypeURL: l.id.TypeURL, Err: err}
	s.note(func(st *Status) { st.LastRejection, st.LastRejected = rejected, at })
}

// publish tells of the state: connecting as long as nothing was read, and while the
// path is gone.
func (s *FileSession) publish(view *fileView, wanted bool) {
	away, last, at := s.files.away()
	s.note(func(st *Status) { st.LastError, st.LastErrorAt = last, at })
	switch {
	case !wanted:
		s.turn(StateIdle)
	case away || !view.read:
		s.turn(StateConnecting)
	default:
		s.turn(StateConnected)
	}
}
