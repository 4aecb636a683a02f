package resolve

import "time"

// reach is how an upstream can be reached.
type reach uint8

const (
	connected reach = iota // or nothing was wanted of it
	away                   // it cannot be reached, for a short time so far
	gone                   // it has been away for so long that it is given up (LOC-5)
)

// turn looks how the upstream can be reached.
func (t *tap) turn(now time.Time) {
	t.since, t.open = t.source.Away()
	was := t.reach
	switch {
	case t.since.IsZero():
		t.reach = connected
	case now.Sub(t.since) < t.resolver.settings.AlternativeAfter, t.open && was != gone:
		t.reach = away
	default:
		t.reach = gone
	}
	if t.reach == was {
		return
	}
	n := t.touch()
	switch log := t.resolver.log.With("upstream", t.upstream.Name, "names", n); {
	case n == 0:
	case t.reach == gone:
		log.Warn("an upstream is unreachable: names that have an alternative are served from there", "since", t.since)
	case was == gone:
		log.Info("an upstream is back: names that were served from an alternative return as they become known")
	}
}

// touch has everything look again that has a choice, and gives the number of it.
func (t *tap) touch() int {
	touched := 0
	for _, l := range t.leads {
		for n := range l.users {
			if n.choice {
				touched++
				n.touch()
			}
		}
	}
	for _, f := range t.folds {
		for g := range f.users {
			if len(g.places) > 1 {
				touched++
				g.touch()
			}
		}
	}
	return touched
}

// giveUp is when the upstream is to be given up, zero if it is not away. While a stream
// to it stands there is no such time: what becomes of the stream is told.
func (t *tap) giveUp() time.Time {
	if t.reach != away || t.open {
		return time.Time{}
	}
	return t.since.Add(t.resolver.settings.AlternativeAfter)
}

// choose says which of several places in order of preference serves, where was did
// until now. at is called for them in order, as far as that matters, and says how a
// place can be reached, and whether it is known what is there.
//
// What serves goes on as long as it is not gone. A better place takes over once it is
// reached and known, a worse one once it is reached: what is cached of one that is
// away is as old as what is held. If no place is left it remains as it was.
func choose(places, was int, at func(int) (reach, bool)) int {
	better := -1 // the first one that is not gone, and not known yet
	for i := range places {
		switch reach, known := at(i); {
		case reach == gone:
		case i == was:
			return i
		case i < was && reach == connected && known:
			return i
		case i < was:
			if better < 0 {
				better = i
			}
		case better >= 0:
			return better
		case reach == connected:
			return i
		default:
			return was // until it is reached, or gone too
		}
	}
	if better >= 0 {
		return better
	}
	return was
}

// switched tells that a name or a glob is served by another of its places.
func (r *Resolver) switched(name string, places []place, was, serves int) {
	r.config.Observer.Switched(places[0].upstream.Name, serves > was)
	r.log.Debug("served from another place", "name", name,
		"from", places[was].upstream.Name, "to", places[serves].upstream.Name)
}
