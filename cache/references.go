package cache

import "strings"

// The directories of list collections refer to other resources (LIST-2). The store says
// which of them its clients have, for a reader outside (TakeReferences); the store itself
// never looks into one. Changes of an entry are
// merged until the reader takes them. So nothing waits for the reader.

// references are the entries of a table whose content refers to others. A reader is told
// when that content changes, and when the clients change that have it. Without a reader
// nothing is kept up (Source.References). Guarded by Store.mu.
type references struct {
	table  tableKey       // immutable
	news   *referenceNews // immutable; of the store
	listed map[*Entry]struct{}
}

// referenceNews are the references of a store that the reader is to take. Guarded by Store.mu.
type referenceNews struct {
	arrived func() // immutable; called with the first of them. Nil if nobody reads
	changed map[refKey]struct{}
}

// refKey names an entry whose reference is to be taken.
type refKey struct {
	tableKey

	key string
}

func (r *referenceNews) read() bool { return r.arrived != nil }

func (r *referenceNews) add(k refKey) {
	if len(r.changed) == 0 {
		r.changed = make(map[refKey]struct{})
		r.arrived()
	}
	r.changed[k] = struct{}{}
}

// contentChanged is called when the content of e changed, came or went.
func (r *references) contentChanged(e *Entry) { r.attend(e, true) }

// usersChanged is called when the clients that have e, or its pins, may have changed.
func (r *references) usersChanged(e *Entry) {
	if e.reported != plain {
		r.attend(e, false)
	}
}

// followersChanged is usersChanged for the members of a collection that got the first
// client that follows it, or lost the last one. before says whether it had one.
func (r *references) followersChanged(c *Collection, before bool) {
	if before == c.followers.anyStream() {
		return
	}
	if c.log.live.len < len(r.listed) { // others in the table may have far more than c
		for e := c.log.live.head; e != nil; e = e.next {
			r.usersChanged(e)
		}
		return
	}
	for e := range r.listed {
		if e.coll == c {
			r.usersChanged(e)
		}
	}
}

// attend tells the reader of e if there is news. Content that no client or pin has or had is no
// news.
func (r *references) attend(e *Entry, changed bool) {
	if !r.news.read() {
		return
	}
	was, now := e.reported, e.attentionTo()
	switch e.reported = now; {
	case now == plain:
		delete(r.listed, e)
	case was == plain:
		r.list(e)
	}
	if max(was, now) > ignored && (changed || was != now) {
		r.news.add(refKey{r.table, e.key})
	}
}

// list records that e refers to others.
func (r *references) list(e *Entry) {
	r.listed = with(r.listed, e)
}

// tellAll tells the reader of all entries that clients or pins have, as if they had just changed.
func (r *references) tellAll() {
	for e := range r.listed {
		if e.reported > ignored {
			r.news.add(refKey{r.table, e.key})
		}
	}
}

// check verifies that the reader knows which entries refer to others.
func (r *references) check(c *Checker, entries map[string]*Entry) {
	if !r.news.read() {
		c.That(len(r.listed) == 0, "%d references that nobody reads", len(r.listed))
		return
	}
	n := 0
	for key, e := range entries {
		_, listed := r.listed[e]
		if listed {
			n++
		}
		refers, now := e.refersToOthers(), e.attentionTo()
		c.That(listed == refers, "%q refers to others: %t, listed %t", key, refers, listed)
		c.That(e.reported == now, "%q has the attention %d, told %d", key, now, e.reported)
	}
	c.That(n == len(r.listed), "%d entries refer to others that are gone", len(r.listed)-n)
}

// refersByType is the content of a directory. A type that has the name of a directory's and
// is none is found out when it is read.
func refersByType(typeURL string) bool { return strings.HasSuffix(typeURL, "Collection") }

// refersToOthers reports whether the content of an entry refers to others.
func (e *Entry) refersToOthers() bool { return e.res != nil && refersByType(e.res.TypeURL()) }

// attentionTo says who has an entry now.
func (e *Entry) attentionTo() attention {
	switch {
	case !e.refersToOthers():
		return plain
	case e.extra.audience != nil && e.extra.audience.Any(NeedsStream), e.Member() && e.coll.followers.anyStream():
		return watched
	case e.marks.pinned:
		return pinned
	}
	return ignored
}
