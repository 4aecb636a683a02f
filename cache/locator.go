package cache

import "time"

// locate puts a new entry for a name with parameters among the name's variants, and
// serves it what is held for its parameters (DYN-1). The server is asked besides: it may
// have another variant for them.
func locate(t *table, e *entry) {
	set := t.variants.begin(plainKey(e.key), t.entries[plainKey(e.key)])
	if best := set.locate(e); best != nil && best.res != nil {
		t.set(e, best.res, nil, best.received)
		set.serving[e] = best
	}
}

// unlocate forgets an entry that nothing refers to any more, and the variants that
// were for it alone.
func unlocate(t *table, e *entry) {
	if set := t.variants.ofEntry(e); set != nil {
		set.leave(e, plainWanted(t, set))
		t.variants.tidy(set)
	}
}

// repay ends that an entry may be served what was sent for others. The server has been
// waited for as long as for names that it does not answer: a resource that it has not sent
// for the entry by now does not exist.
func repay(t *table, e *entry, now time.Time) {
	set := t.variants.ofEntry(e)
	delete(set.borrowing, e)
	if !set.serves(set.located[e]) && e.there() {
		delete(set.serving, e)
		t.unset(e, absent, nil, now)
	}
}

// plainWanted reports whether somebody wants a name without parameters.
func plainWanted(t *table, set *variantSet) bool {
	e := t.entries[set.key]
	return len(t.aliases.of(set.key)) > 0 || t.collectionOf(set.key, e) != nil ||
		(e != nil && (e.interest != nil || e.member() || len(e.subs) > 0))
}
