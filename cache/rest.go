package cache

import "sync"

// rested are the followers of a collection that its next change wakes: those that
// have collected since they were woken. A change costs what it wakes, however many
// others follow who do not read, or are still busy with the change before it.
//
// Followers come to rest under the store's read lock, so the lists have a lock of their
// own, the last one to be taken. Whoever wakes them holds the store's lock for writing,
// and needs no other.
type rested struct {
	mu sync.Mutex
	// Those that can do ttl stand apart: heartbeats wake nobody else (TTL-3).
	plain, timed []*cursor
}

func (r *rested) list(f *cursor) *[]*cursor {
	if f.client.form.TTL {
		return &r.timed
	}
	return &r.plain
}

// rest has the next change wake the cursor's client, unless it does already.
func (f *cursor) rest() {
	if f.resting > 0 {
		return
	}
	r := &f.coll.rested
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list(f)
	*list = append(*list, f)
	f.resting = len(*list)
}

// leaveRest takes the cursor off the list.
func (f *cursor) leaveRest() {
	if f.resting == 0 {
		return
	}
	list := f.coll.rested.list(f)
	last := len(*list) - 1
	(*list)[f.resting-1] = (*list)[last]
	(*list)[f.resting-1].resting = f.resting
	(*list)[last] = nil
	*list = (*list)[:last]
	f.resting = 0
}

// rest has all cursors of the watch rest.
func (w *watch) rest() {
	for f := range w.each() {
		f.rest()
	}
}

// rouse wakes the followers on a list and empties it.
func (s *Store) rouse(list *[]*cursor) {
	for i, f := range *list {
		f.resting = 0
		s.wake(f.watch)
		(*list)[i] = nil
	}
	*list = (*list)[:0]
}

// check verifies that every follower is woken, or will be.
func (r *rested) check(c *checker, coll *collection) {
	n := 0
	for _, f := range coll.followers {
		c.that(f.resting > 0 || f.watch.woken, "%q: the next change does not wake a follower", coll.key)
		if f.resting > 0 {
			n++
			list := *r.list(f)
			c.that(f.resting <= len(list) && list[f.resting-1] == f, "%q: a follower rests in another place", coll.key)
		}
	}
	c.that(n == len(r.plain)+len(r.timed), "%q: %d followers rest, %d are listed", coll.key, n, len(r.plain)+len(r.timed))
}
