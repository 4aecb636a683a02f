package resolve

import "github.com/xdsrelay/xdsrelay/internal/wire"

// member is what makes a node a member of a glob.
type member struct {
	glob     *glob
	name     string // where it stands
	place    place  // and in which glob
	redirect *wire.Resource
	turn     int  // glob.turns when it was last told
	open     bool // nothing is known of it yet; counted in glob.open
}

// find follows the redirect.
func (m *member) find(s *search) sight {
	s.trail = append(s.trail, m.name)
	return s.follow(m.place, m.redirect)
}

// look notes whether the look brought anything.
func (m *member) look(known bool) {
	if known {
		m.known()
		m.glob.settle()
	}
}

func (m *member) known() {
	if m.open {
		m.open = false
		m.glob.open--
	}
}
