package watch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Subscription is what is watched of one type.
type Subscription struct {
	TypeURL string
	Names   []string // empty: everything that the server chooses for the node
}

// Subscriptions makes subscriptions of types, each a short name ("cds"), a
// message name or a type URL, and of resource names. An xdstp name holds its type
// (NAME-5) and is asked of that type only, which then need not be listed; any
// other name is asked of every listed type.
func Subscriptions(types, names []string) ([]Subscription, error) {
	var subs []Subscription
	at := func(url string) *Subscription {
		i := slices.IndexFunc(subs, func(s Subscription) bool { return s.TypeURL == url })
		if i < 0 {
			subs = append(subs, Subscription{TypeURL: url})
			i = len(subs) - 1
		}
		return &subs[i]
	}
	for _, t := range types {
		url, err := keyer.ParseType(t)
		if err != nil {
			return nil, err
		}
		at(url)
	}
	listed := len(subs)
	for _, name := range names {
		if !keyer.IsXDSTP(name) {
			if listed == 0 {
				return nil, fmt.Errorf("the name %q does not tell its type", name)
			}
			for i := range listed {
				subs[i].Names = append(subs[i].Names, name)
			}
			continue
		}
		parsed, err := keyer.Parse(name)
		if err != nil {
			return nil, err
		}
		sub := at(typePrefix + parsed.Type)
		sub.Names = append(sub.Names, name)
	}
	if len(subs) == 0 {
		return nil, errors.New("there is no type to watch")
	}
	return subs, nil
}

const typePrefix = "type.googleapis.com/"
