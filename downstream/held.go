package downstream

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// hold tells the stores what the client says it holds of what it subscribes to there
// (RES-11).
func (st *stream) hold(t *typeState, ch *change, versions map[string]string) {
	if len(versions) == 0 {
		return
	}
	globs := ch.resolvedGlobs()
	for spelling, v := range versions {
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
