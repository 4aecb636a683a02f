package upstream

import (
	"maps"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// fileLine is one of the Store's streams, that is a table of a type.
type fileLine struct {
	id     wire.StreamID
	wanted map[string]struct{} // canonical names, globs and "*"
	taken  bool                // taken over from an earlier session: the Store has lost the stream since
	told   *fileType           // the resources that the Store was given last; nil: none
	whole  bool                // the Store was told that there are no others
	// kept are the wanted resources that the files do not have any more, of a type that is
	// not full-state. Clients that have them keep them (RES-8).
	kept map[string]*wire.Resource
	// lives are the ttls of the resources that the Store was given, by canonical name.
	lives map[string]fileLife
}

// take applies changed subscriptions. It returns the new names, and whether a glob or "*" is
// new.
func (l *fileLine) take(subs []wire.Subscription) (names []string, globs bool) {
	for _, sub := range subs {
		for _, name := range sub.Unsubscribe {
			if key, err := keyer.Key(name); err == nil {
				delete(l.wanted, key)
			}
		}
		if len(sub.Unsubscribe) > 0 {
			l.endLives()
		}
		for _, name := range sub.Subscribe {
			key, err := keyer.Key(name)
			if err != nil {
				continue // never: the Store asked for the name under its key
			}
			l.wanted[key] = struct{}{}
			names, globs = append(names, name), globs || collection(key)
		}
	}
	maps.DeleteFunc(l.kept, func(key string, _ *wire.Resource) bool { return !l.wants(key) })
	return names, globs
}

// wants reports whether a canonical name is asked for, by itself or by a glob or "*".
func (l *fileLine) wants(key string) bool {
	if _, ok := l.wanted[key]; ok {
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
