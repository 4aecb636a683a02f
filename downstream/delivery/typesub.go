package delivery

// close ends all subscriptions.
func (w *typeSub) close() {
	w.subs.parts.leave(&w.subs)
	w.again.forgive()
	for f := range w.subs.each() {
		f.Unfollow()
	}
	for sub := range w.subs.names.all() {
		sub.end()
	}
}
