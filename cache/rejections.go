package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// Rejection is a client's rejection: of one content, or of a list of a full-state type (ACK-3).
type Rejection interface {
	// SentAgain tells that the server sent the content again, or something of the list. It is
	// called once, under the store's lock for writing.
	SentAgain()
}

// Rejections are what clients rejected of a table. Each rejection waits here until the server
// sends the same again. Then it is told and forgotten: the next rejection waits anew. So a
// server that repeats itself costs nothing for clients that reject nothing, and one call for
// each rejection of the others. Guarded by Store.mu.
type Rejections struct {
	suspects int // entries with content that a client rejected alone
	contents map[*Entry]map[Rejection]struct{}
	lists    map[Rejection]struct{}
}

// maxSuspects bounds the resources of a table that go to every client alone because some
// client rejected them alone (ACK-3).
const maxSuspects = 64

// Add records that a client rejected the content of e alone. The client is told when the server
// sends the content again.
func (r *Rejections) Add(e *Entry, by Rejection) {
	if r.contents == nil {
		r.contents = make(map[*Entry]map[Rejection]struct{})
	}
	r.contents[e] = with(r.contents[e], by)
	if e.marks.Suspect || r.suspects >= maxSuspects {
		return
	}
	e.marks.Suspect = true
	r.suspects++
	if e.Member() {
		e.coll.encoded.chunks.drop()
	}
}

// AddList records that a client rejected a list. The client is told when the server sends
// something of it again.
func (r *Rejections) AddList(by Rejection) { r.lists = with(r.lists, by) }

// Trust records that a client accepted the content of e, which another may have rejected.
func (r *Rejections) Trust(e *Entry) {
	if e.marks.Suspect {
		e.marks.Suspect = false
		r.suspects--
	}
}

// Forgive forgets a rejection: of the content of e, or of a list if e is nil.
func (r *Rejections) Forgive(e *Entry, by Rejection) {
	if e == nil {
		delete(r.lists, by)
		return
	}
	delete(r.contents[e], by)
	if len(r.contents[e]) == 0 {
		delete(r.contents, e)
	}
}

// clear forgets that clients rejected the content of e, which goes.
func (r *Rejections) clear(e *Entry) {
	r.Trust(e)
	delete(r.contents, e)
}

// sentAgain tells the clients that rejected the content of e that the server sent it again as res.
// With a ttl it may only be renewed.
func (t *Table) sentAgain(e *Entry, res *wire.Resource) {
	r := &t.rejections
	if res.HasTTL || len(r.contents)+len(r.lists) == 0 {
		return
	}
	contents, lists := r.contents[e], r.lists
	delete(r.contents, e)
	r.lists = nil
	t.store.changes.again = t.store.changes.again || len(contents)+len(lists) > 0
	for by := range contents {
		by.SentAgain()
	}
	for by := range lists {
		by.SentAgain()
	}
}
