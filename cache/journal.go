package cache

// journal numbers the changes of a store, and lists the bells that they ring. Guarded by Store.mu.
type journal struct {
	revision   uint64  // number of the last change
	heartbeats uint64  // number of the last heartbeat
	completed  uint64  // how often a collection got known to have all its members
	rung       []*Bell // to be rung when Store.mu is released; guarded by Store.applyMu
}

// nextRevision numbers a change.
func (j *journal) nextRevision() uint64 {
	j.revision++
	return j.revision
}

// nextHeartbeat numbers a heartbeat.
func (j *journal) nextHeartbeat() uint64 {
	j.heartbeats++
	return j.heartbeats
}

// ring has a bell rung, unless it has rung.
func (j *journal) ring(b *Bell) {
	if !b.rung {
		b.rung = true
		j.rung = append(j.rung, b)
	}
}

// ringType has a type collected, unless its bell has rung.
func (j *journal) ringType(b *TypeBell) {
	if !b.rung {
		b.rung = true
		j.ring(b.place)
	}
}

// flush rings the bells. The caller holds applyMu and not mu.
func (j *journal) flush() {
	for i, b := range j.rung {
		if j.rung[i] = nil; b != nil { // nil: it was rung, and the next one panicked
			b.ring()
		}
	}
	j.rung = j.rung[:0]
}
