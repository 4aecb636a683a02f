package upstream

import "time"

// moveTo makes endpoint the one for new pollers.
func (s *RESTSession) moveTo(endpoint int) {
	if endpoint == s.endpoint {
		return
	}
	from, to := s.up.cfg.Endpoints[s.endpoint], s.up.cfg.Endpoints[endpoint]
	s.endpoint = endpoint
	s.note(func(st *Status) { st.Endpoint = to; st.EndpointChanges++ })
	s.obs.EndpointChanged(from, to)
	s.log.Info("turning to another endpoint", "from", from, "to", to)
	s.scheduleProbe()
}

// scheduleProbe sets when to look for a better endpoint, if there is one (LOC-6).
func (s *RESTSession) scheduleProbe() {
	f := &s.failback
	switch {
	case s.endpoint == 0:
		f.at = time.Time{}
	case f.at.IsZero() && !f.probing:
		f.at = time.Now().Add(spread(s.up.cfg.FailbackInterval << min(f.moves, maxDoublings)))
	}
}

// probe looks, in the background, whether a better endpoint takes connections.
func (s *RESTSession) probe() {
	if s.idle() {
		s.moveTo(0)
		return
	}
	f, better := &s.failback, s.endpoint
	f.probing = true
	f.wg.Go(func() {
		found := better
		for endpoint := range better {
			// Where another session has just tried in vain this one does not.
			if !s.up.failedWithin(endpoint, s.up.cfg.FailbackInterval/2) && s.up.reaches(s.ctx, endpoint) {
				found = endpoint
				break
			}
		}
		select {
		case s.events <- func() { s.probed(found) }:
		case <-s.ctx.Done():
		}
	})
}

// probed moves the session to a better endpoint, or looks again later. What is cached
// stays, as with every new poller.
func (s *RESTSession) probed(endpoint int) {
	f := &s.failback
	f.probing = false
	if endpoint >= s.endpoint {
		s.scheduleProbe()
		return
	}
	f.moves++
	f.target = endpoint
	s.moveTo(endpoint)
	for _, l := range s.lines {
		if l.idle() || (l.poller != nil && l.endpoint == endpoint) {
			continue
		}
		s.end(l, ReasonFailback)
		clear(l.failed)
		s.start(l)
	}
	s.settle()
}
