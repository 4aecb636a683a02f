package downstream

import "github.com/xdsrelay/xdsrelay/cache"

// reroute looks again where the names of a held poll live, if there is another plan. A
// poll has nothing but its subscriptions: they begin anew. What the client presented was
// of the scope before, and is compared byte for byte with what is here, unless it is a
// digest that only this scope has. The error is that of a new poll.
func (p *poll) reroute() error {
	plan := p.server.plans.Load()
	if plan == p.plan {
		return nil
	}
	p.plan = plan
	if !p.routes.Reroute() {
		return nil
	}
	before := p.places
	p.places, p.refused = nil, nil
	err := p.subscribe()
	for _, c := range before { // now, so that what stays where it is was wanted all the time
		c.Leave()
	}
	if err != nil {
		p.server.observer.MoveEnded(moveEnd(err))
		return err
	}
	used := make(map[*cache.Store]bool)
	same := len(before) == len(p.places)
	for i, c := range p.places {
		used[c.Store()] = true
		same = same && before[i].Store() == c.Store()
	}
	p.routes.Settle(func(s *cache.Store) bool { return used[s] })
	if same {
		return nil
	}
	p.away = p.held != nil // else it was compared with nothing yet, as a new one
	p.server.mu.Lock()
	p.moved++
	p.server.mu.Unlock()
	p.server.observer.Moved(REST)
	return nil
}

// version is the version_info of the answer: not the one that the client presented for
// what was another scope's.
func (p *poll) version() string {
	switch version := p.request.GetVersionInfo(); {
	case !p.away || p.held.Version != version:
		return p.held.Version
	case p.held.Digest != version:
		return p.held.Digest
	default:
		return cache.OtherVersion(version)
	}
}
