package delivery

import "slices"

// maxParts is the number of stores above which the keys that a stream names are counted, so
// that not all stores are looked through for each member of "*".
const maxParts = 16

// link joins a type subscription that begins to those of its type in the stream's other stores.
func (s *Subscriber) link(w *typeSub) {
	if s == nil {
		return
	}
	for _, c := range s.places {
		o := c.find(w.typeURL)
		if o == nil || o == w {
			continue
		}
		p := o.subs.parts
		if p == nil {
			p = &parts{all: []*subscribed{&o.subs}}
			o.subs.parts = p
		}
		w.subs.parts = p
		p.all = append(p.all, &w.subs)
		p.count()
		return
	}
}

// leave takes out the part of a type subscription that ends.
func (p *parts) leave(s *subscribed) {
	if p == nil {
		return
	}
	for sub := range s.names.all() {
		p.add(sub.entry.Key(), -1)
	}
	p.all = slices.DeleteFunc(p.all, func(o *subscribed) bool { return o == s })
	s.parts = nil
}

// count begins to count names, if there are enough stores.
func (p *parts) count() {
	if p.names != nil || len(p.all) <= maxParts {
		return
	}
	p.names = make(map[string]int)
	for _, s := range p.all {
		for sub := range s.names.all() {
			p.add(sub.entry.Key(), 1)
		}
	}
}

// add counts a name that begins or ends.
func (p *parts) add(key string, n int) {
	if p == nil || p.names == nil {
		return
	}
	if p.names[key] += n; p.names[key] == 0 {
		delete(p.names, key)
	}
}

// named reports whether the stream names a key in another store than that of s.
func (p *parts) named(key string, s *subscribed) bool {
	switch {
	case p == nil:
		return false
	case p.names != nil:
		return p.names[key] > 0 && !s.names.named(key)
	}
	return slices.ContainsFunc(p.all, func(o *subscribed) bool { return o != s && o.names.len() > 0 && o.names.named(key) })
}

// anyNamed reports whether the stream names anything in another store than that of s.
func (p *parts) anyNamed(s *subscribed) bool {
	return p != nil && slices.ContainsFunc(p.all, func(o *subscribed) bool { return o != s && o.names.len() > 0 })
}
