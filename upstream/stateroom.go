package upstream

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// answerRoom is left free in a request that leaves names out, for version, nonce and the reason of a
// NACK: later answers with the same names may have longer ones.
const answerRoom = 8 << 10

// stateNames are the names that are wanted of a type, and which of them a request has room for: those that came first
// (RES-17). A change costs as much as it changes, however many names there are (LIM-2).
type stateNames struct {
	size func(name string) int // bytes of a name in a request

	names   map[string]place
	gone    map[string]place // that were unsubscribed in this round: to be asked for anew is to keep the place
	came    int
	fresh   []string // wanted since the last fit
	star    bool     // "*" is one of them
	total   int      // bytes of all names
	used    int      // bytes of those that have room
	leftOut int      // number of names that have none
	queue   roomQueue
	large   map[string]struct{} // left out, and have no room even alone
	most    int                 // bytes of all names of a request, at the last fit

	list    []string            // the names that had room when the list was made last, in order; requests share it
	changed map[string]struct{} // names that have room and are not in list, or the other way around
}

// place is the place of a name among those that are wanted.
type place struct {
	order int // in which it came; "*" comes before all names
	room  roomState
	had   bool // undecided: it had room before it was asked for anew
	// queued: the queue has it, once, in this order. A name may be queued that does not wait any more.
	queued bool
}

// roomState says whether a request has room for a name.
type roomState uint8

const (
	undecided roomState = iota // until the next fit
	hasRoom
	lacksRoom
)

func newStateNames(size func(name string) int) stateNames {
	return stateNames{
		size: size, names: make(map[string]place), large: make(map[string]struct{}), changed: make(map[string]struct{}),
	}
}

// add notes that a name is wanted. If it was left out, that is decided anew: a client that asks for it again is told so again.
func (t *stateNames) add(name string) {
	if p, there := t.names[name]; there {
		if p.room == lacksRoom {
			t.settle(name, undecided)
			t.fresh = append(t.fresh, name)
		}
		return
	}
	before, was := t.gone[name]
	p := place{order: before.order, had: before.room == hasRoom, queued: before.queued}
	if !was && name != wildcard {
		t.came++
		p.order = t.came
	}
	t.star = t.star || name == wildcard
	t.names[name] = p
	t.total += t.size(name)
	t.fresh = append(t.fresh, name)
}

// remove notes that a name is not wanted.
func (t *stateNames) remove(name string) {
	p, there := t.names[name]
	if !there {
		return
	}
	t.settle(name, undecided)
	t.total -= t.size(name)
	delete(t.names, name)
	if t.gone == nil {
		t.gone = make(map[string]place)
	}
	t.gone[name] = p
}

// settle records whether there is room for a name.
func (t *stateNames) settle(name string, room roomState) {
	p := t.names[name]
	if p.room == room {
		return
	}
	switch p.room {
	case hasRoom:
		t.used -= t.size(name)
		t.toggle(name)
	case lacksRoom:
		t.leftOut--
		delete(t.large, name)
	case undecided:
	}
	p.room, p.had = room, false
	t.names[name] = p
	switch room {
	case hasRoom:
		t.used += t.size(name)
		t.toggle(name)
	case lacksRoom:
		t.leftOut++
	case undecided:
	}
}

// toggle records that a name has got room, or has none any more.
func (t *stateNames) toggle(name string) {
	if _, changed := t.changed[name]; changed {
		delete(t.changed, name)
	} else {
		t.changed[name] = struct{}{}
	}
}

// listed returns the names that have room, in order.
func (t *stateNames) listed() []string {
	if len(t.changed) == 0 {
		return t.list
	}
	come := make([]string, 0, len(t.changed))
	for name := range t.changed {
		if t.names[name].room == hasRoom {
			come = append(come, name)
		}
	}
	slices.Sort(come)
	list := make([]string, 0, len(t.list)+2*len(come)-len(t.changed))
	for _, name := range t.list {
		if _, gone := t.changed[name]; gone {
			continue
		}
		for len(come) > 0 && come[0] < name {
			list, come = append(list, come[0]), come[1:]
		}
		list = append(list, name)
	}
	list = append(list, come...)
	t.list = list
	if len(t.changed) > minQueue {
		t.changed = make(map[string]struct{}) // maps do not shrink
	} else {
		clear(t.changed)
	}
	return t.list
}

// none reports whether no name has room.
func (t *stateNames) none() bool { return len(t.names) == t.leftOut }

// fit decides which names have room, where all names together take at most so many bytes, and a part of them is spare: that
// is for answers. whole says that all names have room. Names that were said last, in order, may take the spare room
// too. A name that has no room even alone keeps nobody out. fit returns the names that have none and were decided now, and
// those that had none before.
func (t *stateNames) fit(most, spare int, whole bool, said []string) (out, in []string) {
	fresh, star := t.fresh, t.star
	t.fresh, t.star = nil, false
	if t.leftOut > 0 && most != t.most || star && !whole {
		return t.refit(most, spare, whole, said)
	}
	t.most = most
	if whole {
		in = t.lacking()
		for _, name := range slices.Concat(in, fresh) {
			if t.wants(name) {
				t.settle(name, hasRoom)
			}
		}
		t.sweep()
		return nil, in
	}
	for _, name := range fresh {
		if !t.undecided(name) || !t.first(name, said) {
			continue
		}
		if t.used+t.size(name) > most {
			return t.refit(most, spare, whole, said)
		}
		t.settle(name, hasRoom)
	}
	for _, name := range fresh {
		if t.undecided(name) {
			t.wait(name, most-spare)
		}
	}
	in = t.admit(most - spare)
	for _, name := range fresh {
		if t.names[name].room == lacksRoom {
			out = append(out, name)
		}
	}
	return out, without(in, fresh)
}

// without returns names that were left out before: those that are new were not.
func without(names, fresh []string) []string {
	if len(names) == 0 || len(fresh) == 0 {
		return names
	}
	is := make(map[string]bool, len(fresh))
	for _, name := range fresh {
		is[name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool { return is[name] })
}

// first reports whether a name goes before those that are new, and may take the spare room too: it was said last, or is asked
// for anew.
func (t *stateNames) first(name string, said []string) bool {
	return name == wildcard || t.names[name].had || has(said, name)
}

// undecided reports whether a name is wanted of which fit has not decided.
func (t *stateNames) undecided(name string) bool {
	p, wanted := t.names[name]
	return wanted && p.room == undecided
}

// wants reports whether a name is wanted.
func (t *stateNames) wants(name string) bool {
	_, wanted := t.names[name]
	return wanted
}

// wait leaves a name out, until there is room for it among the names of a request.
func (t *stateNames) wait(name string, most int) {
	t.settle(name, lacksRoom)
	if t.size(name) > most {
		t.large[name] = struct{}{}
		return
	}
	p := t.names[name]
	if p.queued {
		return
	}
	p.queued = true
	t.names[name] = p
	heap.Push(&t.queue, queued{p.order, name})
}

// admit gives room to names that wait for it, as long as there is some for the first of them.
func (t *stateNames) admit(most int) (in []string) {
	for len(t.queue) > 0 {
		q := t.queue[0]
		waits := t.waits(q)
		if waits && t.used+t.size(q.name) > most {
			break
		}
		heap.Pop(&t.queue)
		t.dequeued(q)
		if waits {
			t.settle(q.name, hasRoom)
			in = append(in, q.name)
		}
	}
	if len(t.queue) > 2*t.leftOut+minQueue {
		t.sweep()
	}
	return in
}

// waits reports whether a name of the queue waits for room still.
func (t *stateNames) waits(q queued) bool {
	p := t.names[q.name]
	return p.order == q.order && p.room == lacksRoom
}

// sweep takes names that do not wait any more out of the queue: they take memory (LIM-3).
func (t *stateNames) sweep() {
	left := make(roomQueue, 0, t.leftOut)
	for _, q := range t.queue {
		if t.waits(q) {
			left = append(left, q)
		} else {
			t.dequeued(q)
		}
	}
	t.queue = left
	heap.Init(&t.queue)
}

// dequeued notes that a name is not in the queue any more.
func (t *stateNames) dequeued(q queued) {
	for _, places := range []map[string]place{t.names, t.gone} {
		if p := places[q.name]; p.queued && p.order == q.order {
			p.queued = false
			places[q.name] = p
		}
	}
}

// lacking returns the names that are left out, in no order.
func (t *stateNames) lacking() []string {
	names := slices.AppendSeq(make([]string, 0, t.leftOut), maps.Keys(t.large))
	for _, q := range t.queue {
		if t.waits(q) {
			names = append(names, q.name)
		}
	}
	return names
}

// refit is fit for all names anew: a request has more or less room than before, or "*" is new, which goes before names that
// have room. So does a name that is asked for anew, before those that came after it.
func (t *stateNames) refit(most, spare int, whole bool, said []string) (out, in []string) {
	names := t.inOrder()
	before := make(map[string]bool, t.leftOut)
	for _, name := range t.lacking() {
		before[name] = true
	}
	first := make(map[string]bool)
	for _, name := range names {
		if t.names[name].room == hasRoom || t.first(name, said) {
			first[name] = true
		}
	}
	for _, name := range names {
		t.settle(name, undecided)
	}
	t.most = most
	t.sweep()
	for _, name := range names {
		if whole || first[name] && t.used+t.size(name) <= most {
			t.settle(name, hasRoom)
		}
	}
	for _, name := range names {
		if t.undecided(name) {
			t.wait(name, most-spare)
		}
	}
	t.admit(most - spare)
	for _, name := range names {
		switch lacks := t.names[name].room == lacksRoom; {
		case lacks && !before[name]:
			out = append(out, name)
		case !lacks && before[name]:
			in = append(in, name)
		}
	}
	return out, in
}

// inOrder returns the names in the order in which they have room.
func (t *stateNames) inOrder() []string {
	return slices.SortedFunc(maps.Keys(t.names), func(a, b string) int { return cmp.Compare(t.names[a].order, t.names[b].order) })
}

// roomQueue has the names first that came first. Names that do not wait any more may stay in it for a while.
type roomQueue []queued

type queued struct {
	order int
	name  string
}

// minQueue is how many names that do not wait any more may stay in a queue, however few wait.
const minQueue = 64

func (q roomQueue) Len() int           { return len(q) }
func (q roomQueue) Less(i, j int) bool { return q[i].order < q[j].order }
func (q roomQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *roomQueue) Push(x any)        { *q = append(*q, x.(queued)) }

func (q *roomQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = queued{}
	*q = (*q)[:last]
	return x
}

// nameSize returns how many bytes a name takes in a request.
func nameSize(name string) int {
	return protowire.SizeTag(3) + protowire.SizeBytes(len(name)) // resource_names
}
