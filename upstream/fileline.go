package upstream

import (
	"maps"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

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
