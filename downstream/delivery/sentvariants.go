package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// sentVariants are the resources that a client was sent with dynamic parameter constraints, and
// the constraints: a removal has to say them (DYN-1). A client that subscribes to a name with
// several sets of parameters, such as another relay, may have several variants, and one variant
// for several subscriptions.
type sentVariants struct {
	aware   bool                 // the client uses parameters, and tells variants apart: all that it names is here
	by      map[any]wire.Variant // by *nameSub, or *entry of a member
	holders map[wire.Variant]int
	left    []wire.Variant // of subscriptions that ended, until Place.Update is through
	surplus []wire.Variant // the client may have them beside what it was sent later, and is to be told
}

// swap records what the client has now of one of its subscriptions, nothing if now is zero. It
// returns the variant that none of its subscriptions has any more.
func (s *sentVariants) swap(who any, now wire.Variant) (gone wire.Variant) {
	was, had := s.by[who]
	if had && was == now {
		return wire.Variant{}
	}
	if had {
		delete(s.by, who)
		if s.holders[was]--; s.holders[was] == 0 {
			delete(s.holders, was)
			gone = was
		}
	}
	if now != (wire.Variant{}) {
		s.by[who] = now
		s.holders[now]++
	}
	if s.holders[gone] > 0 {
		return wire.Variant{} // it is what the client has now
	}
	return gone
}

// begin returns s, new if the client was sent nothing with constraints so far.
func (s *sentVariants) begin() *sentVariants {
	if s == nil {
		s = &sentVariants{by: make(map[any]wire.Variant), holders: make(map[wire.Variant]int)}
	}
	return s
}

// end returns s, nil if the client has nothing with constraints any more.
func (s *sentVariants) end() *sentVariants {
	if len(s.by) == 0 && !s.aware {
		return nil
	}
	return s
}

// forget records that a subscription ended, and returns what is left.
func (s *sentVariants) forget(who any) *sentVariants {
	if s == nil {
		return nil
	}
	if gone := s.swap(who, wire.Variant{}); gone != (wire.Variant{}) {
		s.left = append(s.left, gone)
	}
	return s.end()
}

// forgetMembers does so for a collection.
func (s *sentVariants) forgetMembers(c *cache.Collection) *sentVariants {
	if s == nil {
		return nil
	}
	for who := range s.by {
		if e, ok := who.(*cache.Entry); ok && (e.Collection() == c || e.Collection() == nil) {
			s.swap(who, wire.Variant{})
		}
	}
	return s.end()
}

// surplusDue reports whether the client is to be told of variants that it need not have.
func (s *sentVariants) surplusDue() bool { return s != nil && len(s.surplus) > 0 }
