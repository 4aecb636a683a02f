package downstream

// Foresee says what Reroute would do if other routes were in force, of each open stream with a request. next gives the routes of
// a stream's client by these; nil: there are none. The error is that of Router.Open. tell is given the stream's routes, and why
// it would end; "": it would go on. Polls are left out: they come again anyhow. busy is how many streams nothing is said of,
// since their clients do not read, or they are being served. Nothing changes.
func (s *Server) Foresee(next func(Routes) (Routes, error), tell func(Routes, MoveEnd)) (busy int) {
	for _, m := range s.present() {
		if st, ok := m.(*stream); ok && !st.foresee(next, tell) {
			busy++
		}
	}
	return busy
}

// foresee reports whether the stream could be looked at.
func (st *stream) foresee(foreseen func(Routes) (Routes, error), tell func(Routes, MoveEnd)) bool {
	if !st.take() {
		return false
	}
	defer st.giveBack()
	now := st.routing.routes
	if now == nil || st.departure != nil { // or it ends already
		return true
	}
	next, err := foreseen(now)
	switch {
	case err != nil:
		tell(now, EndUnverified)
	case next != nil:
		reason, moves := st.types.moved(now, next, st.subscriber.Places())
		if !moves && st.passes(next) {
			reason = EndMoved
		}
		tell(now, reason)
	}
	return true
}
