package downstream

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// hold tells the stores what the client says it holds of what it subscribes to there
// (RES-11). An opaque name that it does not subscribe to came with "*", wherever that name
// would live by itself (AGG-1): nobody is asked for it there.
func (st *stream) hold(t *typeState, ch *change, versions map[string]string) {
	if len(versions) == 0 {
		return
	}
	globs, named, wildcard := ch.resolvedGlobs(), ch.named(), ch.wildcard()
	for spelling, v := range versions {
		if !named[spelling] && isOpaque(spelling) {
			if wildcard != nil {
				addVersion(wildcard, spelling, v)
			}
			continue
		}
		store, name, err := locate(st.routes, t.url, spelling)
		if err == nil && ch.changes[store] != nil { // else nothing is subscribed to where it would be
			addVersion(ch.changes[store], name.Key, v)
		}
		if len(globs) == 0 {
			continue
		}
		key, err := keyer.Key(spelling)
		if err != nil {
			continue
		}
		for _, g := range globs[keyer.GlobOf(key)] {
			addVersion(g.change, keyer.MemberOf(g.key, key), v)
		}
	}
}

// isOpaque reports whether a resource may have a name that says nothing.
func isOpaque(name string) bool {
	return name != "" && len(name) <= maxNameLength && !wire.IsLocator(name) && !keyer.IsXDSTP(name)
}

// named are the spellings of what is subscribed to.
func (c *change) named() map[string]bool {
	all := make(map[string]bool)
	for _, ch := range c.changes {
		for _, n := range ch.Subscribe {
			all[n.Spelling] = true
		}
	}
	return all
}

// wildcard is the change that subscribes to "*", nil if there is none.
func (c *change) wildcard() *cache.Change {
	for _, ch := range c.changes {
		for _, n := range ch.Subscribe {
			if n.Key == cache.Wildcard {
				return ch
			}
		}
	}
	return nil
}

func addVersion(ch *cache.Change, key, version string) {
	if ch.Versions == nil {
		ch.Versions = make(map[string]string)
	}
	ch.Versions[key] = version
}

// resolvedGlob is a glob with directives.
type resolvedGlob struct {
	change *cache.Change
	key    string
}

// resolvedGlobs lists what is subscribed to of them, by what they are without: a client
// knows their members by names that have none (NAME-4), and that do not say which glob
// they came with.
func (c *change) resolvedGlobs() map[string][]resolvedGlob {
	var all map[string][]resolvedGlob
	for _, ch := range c.changes {
		for _, n := range ch.Subscribe {
			plain, directives, _ := strings.Cut(n.Key, "#")
			if directives == "" || !keyer.IsGlob(n.Key) {
				continue
			}
			if all == nil {
				all = make(map[string][]resolvedGlob)
			}
			all[plain] = append(all[plain], resolvedGlob{ch, n.Key})
		}
	}
	return all
}
