package hold

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Fate is what becomes of a held name when it is released: what the server said of it last.
type Fate struct {
	// Name is the server's spelling of a name that it removed.
	Name string
	// Resource is its new content, nil if the server removed it.
	Resource *wire.Resource
	// Err is the error with which the server removed it (ERR-1), nil for none.
	Err *wire.ResourceError
	// Loss says that clients lose something by it. Other changes wait only for a loss.
	Loss bool
}

// Removes reports whether the server removed the name.
func (f *Fate) Removes() bool { return f.Resource == nil }

// Names are the held names of a table, by key. The zero value is empty.
type Names struct {
	fates  map[string]Fate
	losses int
}

// Len is the number of held names.
func (n *Names) Len() int { return len(n.fates) }

// Losses is the number of those among them that clients would lose.
func (n *Names) Losses() int { return n.losses }

// Get returns the fate of a name.
func (n *Names) Get(key string) (f Fate, held bool) {
	f, held = n.fates[key]
	return f, held
}

// Put holds a name, or gives it another fate. It does not keep the key.
func (n *Names) Put(key string, f Fate) {
	n.Drop(key)
	if n.fates == nil {
		n.fates = make(map[string]Fate)
	}
	n.fates[strings.Clone(key)] = f
	if f.Loss {
		n.losses++
	}
}

// Drop holds a name no longer.
func (n *Names) Drop(key string) {
	f, held := n.fates[key]
	if !held {
		return
	}
	if f.Loss {
		n.losses--
	}
	if delete(n.fates, key); len(n.fates) == 0 {
		n.fates = nil
	}
}

// Take empties it. It yields the new contents first and the removals behind them, by key.
func (n *Names) Take() iter.Seq2[string, Fate] {
	fates := n.fates
	*n = Names{}
	return func(yield func(string, Fate) bool) {
		keys := slices.Sorted(maps.Keys(fates))
		for _, removals := range []bool{false, true} {
			for _, key := range keys {
				if f := fates[key]; f.Removes() == removals && !yield(key, f) {
					return
				}
			}
		}
	}
}

// All yields the held names, in no order.
func (n *Names) All() iter.Seq2[string, Fate] { return maps.All(n.fates) }
