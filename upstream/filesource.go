package upstream

import (
	"context"
	"maps"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// fileSource is the source of a session whose control plane is made of files. It answers
// demand at once, and tells the Store anew of a type when the type's files change. The Store
// must have streams per type (cache.Source.PerType), so that a change concerns one table.
type fileSource struct {
	noClocks

	// Immutable after NewSession.
	files   *Files
	session *Session
	store   Store
	report  *report

	// Owned by the goroutine in Run.
	lines map[wire.StreamID]*fileLine
	left  map[wire.StreamID]*fileLine // of an earlier session, and not taken over yet
}

// NewSession makes a session. It does nothing until Run is called. No node is needed,
// since files say the same to all.
func (f *Files) NewSession(cfg SessionConfig) (*Session, error) {
	s, err := newSession(cfg, f.cfg.Name, f.cfg.Path, f.cfg.Logger, f.roster, f.cfg.Batch)
	if err != nil {
		return nil, err
	}
	s.source = &fileSource{files: f, session: s, store: s.store, report: s.report, lines: make(map[wire.StreamID]*fileLine)}
	return s, nil
}

// Succeed has a session of files continue where an earlier one ended, which may have read
// other files. Clients keep the resources that the present files do not have, of a type
// that is not full-state (RES-8). The earlier session's Run has returned, and this one's was
// not called. For sessions with servers Succeed does nothing.
func (s *Session) Succeed(before *Session) {
	now, files := s.source.(*fileSource)
	was, filesBefore := before.source.(*fileSource)
	if files && filesBefore {
		now.left = make(map[wire.StreamID]*fileLine)
		maps.Copy(now.left, was.left)
		maps.Copy(now.left, was.lines)
	}
}

// begin implements source.
func (s *fileSource) begin(context.Context) {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	s.files.sessions[s.session] = struct{}{}
}

// end implements source.
func (s *fileSource) end() {
	s.files.mu.Lock()
	delete(s.files.sessions, s.session)
	s.files.mu.Unlock()
	for id := range s.lines {
		s.store.Lost(id)
	}
}

// rung implements source: there is another view of the files, or another problem. Demand
// that waits for the end of the batch time is answered with it.
func (s *fileSource) rung() {
	if s.session.batchAt.IsZero() {
		s.reconcile()
	}
}

// urgent implements source: all demand waits for the batch time.
func (*fileSource) urgent(wire.StreamID, time.Time) bool { return false }

// reconcile implements source: it gives the Store the wanted resources that it does not have.
func (s *fileSource) reconcile() {
	view := s.files.view.Load()
	if view.read {
		for _, id := range s.store.Streams() {
			s.serve(s.line(id), view)
		}
		s.left = nil // nothing of the rest is wanted
	}
	maps.DeleteFunc(s.lines, func(id wire.StreamID, _ *fileLine) bool {
		if s.store.StreamWanted(id) {
			return false
		}
		s.store.Lost(id)
		return true
	})
	s.session.settle() // ttls of resources from files run out by themselves (TTL-2)
}

// review implements source. A session of files is connecting as long as nothing was read, and
// while the path is gone.
func (s *fileSource) review() State {
	read := s.files.view.Load().read
	away, last := s.files.away()
	s.report.note(func(st *Status) { st.LastError = last })
	switch {
	case len(s.lines) == 0 && (read || len(s.store.Streams()) == 0):
		return StateIdle
	case away || !read:
		return StateConnecting
	}
	return StateConnected
}

// line finds the line of a stream, or begins it.
func (s *fileSource) line(id wire.StreamID) *fileLine {
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
func (s *fileSource) serve(l *fileLine, view *fileView) {
	now := view.typeOf(l.id.TypeURL)
	s.keep(l, now) // by the subscriptions until now: no other client had the resources
	names, globs, changed := s.demand(l)
	l.renew(now, names)
	switch {
	case len(l.wanted) == 0:
	case !view.complete && (l.told != now || changed):
		s.add(l, now)
	case !view.complete:
	case l.told != now || !l.whole || globs:
		s.tellAll(l, now)
	case len(names) > 0:
		s.answer(l, now, names)
	}
}

// demand takes the changes of demand from the Store. It returns the new names, whether a
// glob or "*" is new, and whether anything changed.
func (s *fileSource) demand(l *fileLine) (names []string, globs, changed bool) {
	var subs []wire.Subscription
	ok := false
	if l.wanted != nil && !l.taken {
		if subs, ok = s.store.TakeDemand(l.id); !ok {
			s.store.Lost(l.id)
		}
	}
	if !ok {
		// "*" is wanted again after it was unsubscribed and its members were dropped. Or
		// the stream begins anew with another session, and nothing was dropped.
		before := *l
		*l = fileLine{id: l.id, wanted: make(map[string]struct{})}
		if before.taken {
			l.kept = before.kept
		}
		subs = s.store.Restart(l.id, 0)
	}
	names, globs = l.take(subs)
	return names, globs, len(subs) > 0
}

// tellAll gives the Store all that is wanted of the type, and that there is nothing else.
func (s *fileSource) tellAll(l *fileLine, now *fileType) {
	resources := now.covered(l.wanted)
	maps.Copy(resources, l.kept)
	at := time.Now()
	r := &wire.Response{
		State: true, Complete: true, TypeURL: l.id.TypeURL, Version: now.state.VersionInfo,
		Resources: l.timed(resources, at, true), Errors: l.errors(now),
	}
	s.hand(l, r, at)
	l.told, l.whole = now, true
}

// keep finds the resources that stay though the files do not have them any more.
func (s *fileSource) keep(l *fileLine, now *fileType) {
	if l.told == nil || l.told == now || s.files.cfg.FullState[l.id.TypeURL] {
		return
	}
	before := l.told.covered(l.wanted)
	maps.Copy(before, l.kept)
	l.kept = make(map[string]*wire.Resource)
	for key, r := range before {
		if now.byKey[key] == nil && !now.gone(key) && l.wants(key) {
			l.kept[key] = r
		}
	}
}

// answer tells the Store of new names only. Otherwise, with thousands of names asked for one
// by one, each would cost a look at all of them.
func (s *fileSource) answer(l *fileLine, now *fileType, names []string) {
	r, at := &wire.Response{TypeURL: l.id.TypeURL}, time.Now()
	listed := make(map[*wire.Resource]bool, len(names)) // one may have several names (RES-10)
	told := make(map[*wire.ResourceError]bool)
	for _, name := range names {
		key, err := keyer.Key(name)
		if err != nil {
			continue // take has passed over it
		}
		found := now.named(key)
		if found == nil {
			found = l.kept[key]
		}
		failed := now.errors[key]
		if failed != nil && !told[failed] {
			told[failed] = true
			r.Errors = append(r.Errors, *failed)
		}
		switch {
		case found == nil && failed == nil:
			r.Removed = append(r.Removed, name)
		case found != nil && !listed[found]:
			listed[found] = true
			r.Resources = append(r.Resources, found)
			l.begin(found, at)
		}
	}
	s.hand(l, r, at)
}

// add gives the Store the resources that the files have. Others may be in a file that has
// never been valid, so add says nothing of them (RES-2).
func (s *fileSource) add(l *fileLine, now *fileType) {
	at := time.Now()
	resources := l.timed(now.covered(l.wanted), at, false)
	l.told, l.whole = now, false
	errs := l.errors(now)
	if len(resources)+len(errs) > 0 {
		s.hand(l, &wire.Response{TypeURL: l.id.TypeURL, Resources: resources, Errors: errs}, at)
	}
}

// hand counts a response, and applies it. If the Store rejects it (ACK-6) the cached resources
// stay.
func (s *fileSource) hand(l *fileLine, r *wire.Response, at time.Time) {
	bytes := 0
	for _, res := range r.Resources {
		bytes += res.Size()
	}
	s.report.responded(l.id.TypeURL, len(r.Resources), len(r.Removed), bytes, at)
	if err := s.session.safety.apply(s.store, l.id, r, at); err != nil {
		l.lives = nil // the Store may have taken some of it
		s.report.log.Warn("state of the files rejected", "type", l.id.TypeURL, "cached", cached(err), "error", detail(err))
		rejected := &RejectedError{TypeURL: l.id.TypeURL, Err: err, At: at}
		s.report.note(func(st *Status) { st.LastRejection = rejected })
	}
}
