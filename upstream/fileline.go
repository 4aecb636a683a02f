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
	taken   bool      // taken over from an earlier session: the Store has lost the stream since
	told    *fileType // the resources that the Store was given last; nil: none
	whole   bool      // the Store was told that there are no others
	// kept are the wanted resources that the files do not have any more, of a type that is
	// not full-state. Clients that have them keep them (RES-8).
	kept map[string]*wire.Resource
	// lives are the ttls of the resources that the Store was given, by canonical name.
	lives map[string]fileLife
}

// fileKey is the key of a name, with parameters or without.
func fileKey(name string) (string, error) {
	key, err := keyer.Key(wire.LocatedName(name))
	return wire.Respell(name, key), err
}

// want adds a name to the wanted ones, and let removes it.
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

// take applies changed subscriptions. It returns the new names, and whether a glob or "*" is
// new.
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
				continue // never: the Store asked for the name under its key
			}
			l.want(key)
			names, globs = append(names, name), globs || collection(key)
		}
	}
	maps.DeleteFunc(l.kept, func(key string, _ *wire.Resource) bool { return !l.wants(key) })
	return names, globs
}

// wants reports whether a canonical name is asked for, by itself or by a glob or "*".
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

// errors are the errors of the names that are asked for (ERR-1).
func (l *fileLine) errors(now *fileType) []wire.ResourceError {
	var errs []wire.ResourceError
	for key, e := range now.errors {
		if l.wants(key) {
			errs = append(errs, *e)
		}
	}
	return errs
}
