package upstream

// probe looks, in the background, whether a better endpoint takes connections.
func (s *RESTSession) probe() {
	if s.idle() {
		s.failback.moveTo(0)
		return
	}
	f := s.failback
	better := f.endpoint
	f.probing = true
	f.wg.Go(func() {
		found := better
		for endpoint := range better {
			if !f.knownBad(endpoint) && s.up.reaches(s.ctx, endpoint) {
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

// probed has every line poll at a better endpoint, if one was found. What is cached
// stays, as with every new poller.
func (s *RESTSession) probed(endpoint int) {
	if !s.failback.found(endpoint) {
		return
	}
	for _, l := range s.lines {
		if l.idle() || l.asleep || (l.poller != nil && l.endpoint == endpoint) {
			continue
		}
		s.end(l, ReasonFailback)
		clear(l.failed)
		s.start(l)
	}
	s.settle()
}
