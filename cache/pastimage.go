package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// PastImage is the states before the present one (Operator.Rollback), for a disk.
type PastImage struct {
	Number uint64    // of the present state
	Since  time.Time // it is the present one
	Bursts []BurstImage
}

// BurstImage is the changes that ended a state.
type BurstImage struct {
	Number       uint64    // of the state
	Since        time.Time // of the state
	Began, Ended time.Time
	Before       []BeforeImage
}

// BeforeImage is what clients had of a name.
type BeforeImage struct {
	TypeURL  string
	Kind     Kind
	Key      string
	Resource *wire.Resource // nil: nothing
}

// image is what the disk gets, the oldest burst first.
func (p *past) image() PastImage {
	i := PastImage{Number: p.number, Since: p.since}
	for _, b := range p.bursts {
		x := BurstImage{Number: b.number, Since: b.since, Began: b.began, Ended: b.ended, Before: make([]BeforeImage, 0, len(b.before))}
		for name, r := range b.before {
			x.Before = append(x.Before, BeforeImage{TypeURL: name.table.typeURL, Kind: name.table.kind, Key: name.key, Resource: r})
		}
		i.Bursts = append(i.Bursts, x)
	}
	return i
}

// restore takes over the states of an earlier process. The store has none of its own.
func (p *past) restore(i *PastImage, c *Cache) {
	if p.number > 0 || c.past.generations.Load() == 0 {
		return
	}
	*p = past{number: i.Number, since: i.Since, closed: true}
	for _, x := range i.Bursts {
		b := &burst{number: x.Number, since: x.Since, began: x.Began, ended: x.Ended, before: make(map[pastName]*wire.Resource, len(x.Before))}
		for _, before := range x.Before {
			b.before[pastName{tableKey{before.TypeURL, before.Kind}, before.Key}] = before.Resource
			b.bytes += pastOverhead
			if before.Resource != nil {
				b.bytes += int64(before.Resource.Size())
			}
		}
		p.bursts = append(p.bursts, b)
		c.past.bytes.Add(b.bytes)
	}
}
