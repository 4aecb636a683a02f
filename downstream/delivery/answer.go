package delivery

import "github.com/xdsrelay/xdsrelay/cache"

// dropUnfollowed forgets the answers that no collection owes any more.
func (a *answers) dropUnfollowed(s *subscribed) {
	if s.wildcard != nil {
		return
	}
	for key := range *a {
		if s.globs.of(key) == nil {
			a.drop(key)
		}
	}
}

// due reports whether an answer is due: one that there is nothing, or one with content.
func (a answers) due(s *subscribed, away bool) bool {
	for _, n := range a {
		if e, known := s.lookup(n); known && away == (e == nil) {
			return true
		}
	}
	return false
}

// answer owes the client an answer about a name, and has the server asked again for content
// that was not kept.
func (w *typeSub) answer(n cache.Name) {
	w.answers.owe(n)
	for _, f := range []*follower{w.subs.wildcard, w.subs.globs.of(n.Key)} {
		if f == nil {
			continue
		}
		if e := f.Collection().Table().Find(n.Key); e != nil && e.Collection() == f.Collection() && e.State() == cache.Transient {
			f.Collection().AskForTransient(w.needs())
		}
	}
}
