package digest

// mostDeparted is how many histories a Departed holds at most.
const mostDeparted = 1024

// Departed holds the histories of resources of which nothing else is held any more, by hashes of
// their keys. A server may use a version again that it gave to one of them, while a client that
// has it is away (ACK-4). The oldest half is forgotten when there are too many. The zero value
// holds nothing.
type Departed struct{ young, old map[uint64]*History }

// Put keeps a history. The caller must not change it any more.
func (d *Departed) Put(key uint64, h *History) {
	if len(d.young) >= mostDeparted/2 {
		d.young, d.old = nil, d.young
	}
	if d.young == nil {
		d.young = make(map[uint64]*History)
	}
	delete(d.old, key)
	d.young[key] = h
}

// Take gives a history back to a resource that is held again; nil if there is none.
func (d *Departed) Take(key uint64) *History {
	for _, some := range []map[uint64]*History{d.young, d.old} {
		if h := some[key]; h != nil {
			delete(some, key)
			return h
		}
	}
	return nil
}

// Len is how many histories are held.
func (d *Departed) Len() int { return len(d.young) + len(d.old) }
