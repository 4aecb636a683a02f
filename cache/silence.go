package cache

// A client may have a resource by a collection and name it too, while the server has not
// answered the name. If the collection loses the resource, the answer tells what became of it:
// it may bring the resource at once. A server may stay silent of the name (RES-7). Then the
// client is told what the collection lost.

// leaveToName leaves a member that a collection lost to the client's subscriptions to its name
// whose answer may still come, and reports whether there is any. If the server stays silent
// (RES-7), a client that may have the member is told then that it is gone.
func (w *watch) leaveToName(key string, mayHave bool) (left bool) {
	for sub := range w.subsOf(key) {
		if sub.entry.unanswered() {
			sub.denied, sub.holds, left = true, sub.holds || mayHave, true
		}
	}
	return left
}

// returned records that a collection has a member again that it had lost: see leaveToName.
func (w *watch) returned(key string) {
	if w.names.len() == 0 {
		return
	}
	for sub := range w.subsOf(key) {
		if sub.entry.open() {
			sub.denied = false
		}
	}
}

// unheld records that the client was told that a member is gone. A name of it that is not
// answered yet does not stand for what the client holds any more (RES-11).
func (w *watch) unheld(key, name string) {
	if !w.named(key) {
		return
	}
	w.held = without(w.held, key)
	if sub := w.names.get(name); sub != nil && sub.entry.key == key {
		sub.holds, sub.denied = false, false
	}
}

// tellsLost reports whether the client is to be told of a member that a collection lost while
// the name was not answered, and that the server stayed silent of: see leaveToName.
func (n *nameSub) tellsLost() bool {
	c := n.watch.client
	return n.entry.overdue && n.takesAway() && !c.form.State && !c.reads()
}

// lateLoss makes due what the client was not told because the name's answer might have come.
func (n *nameSub) lateLoss() {
	if n.takesAway() {
		n.makeDue()
	}
}
