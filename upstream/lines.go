package upstream

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/backoff"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func (s *Session) newLine(id wire.StreamID) *line {
	l := &line{
		id:      id,
		method:  s.up.cfg.APIType.method(id),
		backoff: backoff.Backoff{Base: s.up.cfg.BackoffBase, Max: s.up.cfg.BackoffMax},
		failed:  make([]bool, len(s.up.cfg.Endpoints)),
	}
	if l.method == "" {
		s.log.Warn("type has no service of its own and cannot be asked for", "type", id.TypeURL, "api_type", s.up.cfg.APIType)
		s.obs.TypeUnavailable(id.TypeURL)
	}
	return l
}

// line finds the line of a stream, nil if there is none.
func (s *Session) line(id wire.StreamID) *line {
	for _, l := range s.lines {
		if l.id == id {
			return l
		}
	}
	return nil
}

// reap forgets the lines that are idle and not wanted: types are the clients' choice,
// and must not pile up.
func (s *Session) reap() {
	before := len(s.lines)
	s.lines = slices.DeleteFunc(s.lines, func(l *line) bool { return l.idle() && !s.store.StreamWanted(l.id) })
	if len(s.lines) < before {
		s.noteTypes()
	}
}
