package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// join makes one list of the parts of several stores. Where a part is missing, since something
// else of its store must go first, all are taken again.
func join(batches []*Batch, s *schedule, clients []*Place) []*Batch {
	var all []*Batch
	for len(batches) > 0 {
		b := batches[0]
		d := s.of(b.TypeURL)
		if !d.full || d.places == 1 {
			all, batches = append(all, b), batches[1:]
			continue
		}
		n := 1
		for n < len(batches) && batches[n].TypeURL == b.TypeURL {
			n++
		}
		if n == int(d.places) {
			all = append(all, joined(batches[:n]))
		} else {
			relist(clients, b.TypeURL)
		}
		batches = batches[n:]
	}
	return all
}

func joined(parts []*Batch) *Batch {
	b := parts[0]
	x := b.extras()
	for _, o := range parts {
		x.parts = append(x.parts, Part{o.Store, o.content})
	}
	versions := []string{b.SystemVersion}
	for _, o := range parts[1:] {
		b.Body.Join(&o.Body)
		b.Merged += o.Merged
		b.Renewal = b.Renewal && o.Renewal
		b.flight.join(&o.flight)
		if o.extra != nil && o.extra.screened.is {
			x.screened = screenedList{is: true, must: x.screened.must || o.extra.screened.must}
		}
		if b.Last == 0 {
			b.Store, b.Last = o.Store, o.Last
		}
		versions = append(versions, o.SystemVersion)
		b.Received = notify.Earlier(b.Received, o.Received)
	}
	b.SystemVersion = digest.Join(versions)
	return b
}

// relist has a list sent again.
func relist(clients []*Place, typeURL string) {
	for _, c := range clients {
		if w := c.find(typeURL); w != nil {
			c.store.View(func() { w.list.relist, w.progress.sent = true, 0 })
		}
	}
}

// news leaves out lists that have what the last one had: something changed that the client may
// not have.
func (s *Subscriber) news(batches []*Batch) []*Batch {
	var out []*Batch
	for i, b := range batches {
		if b.extra == nil || !b.extra.screened.is {
			if out != nil {
				out = append(out, b)
			}
			continue
		}
		same := !b.extra.screened.must && s.lists[b.TypeURL] == b.SystemVersion
		if s.lists == nil {
			s.lists = make(map[string]string)
		}
		s.lists[b.TypeURL] = b.SystemVersion
		switch {
		case same && out == nil:
			out = append(make([]*Batch, 0, len(batches)), batches[:i]...)
		case !same && out != nil:
			out = append(out, b)
		}
	}
	if out == nil {
		return batches
	}
	return out
}
