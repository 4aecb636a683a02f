package upstream

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/backoff"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func (s *Session) newLine(id wire.StreamID) *line {
	return &line{
		id:      id,
		method:  s.up.cfg.APIType.method(id),
		ticket:  &ticket{bell: s.admitted},
		backoff: backoff.Backoff{Base: s.up.cfg.BackoffBase, Max: s.up.cfg.BackoffMax},
		failed:  make([]bool, len(s.up.cfg.Endpoints)),
	}
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
	s.lines = slices.DeleteFunc(s.lines, func(l *line) bool {
		gone := l.idle() && !s.store.StreamWanted(l.id)
		if gone && l.refused {
			s.noteQuarantined(l.id.TypeURL, -1)
		}
		return gone
	})
}
