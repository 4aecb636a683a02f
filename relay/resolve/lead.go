package resolve

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// state is what is known of a name.
type state uint8

const (
	unknown state = iota
	found         // it exists
	absent        // it does not
	failed        // the server reported an error for it, and nothing is held (ERR-1)
)

// leadKey names what is read in one store.
type leadKey struct{ typeURL, key string }

func (k leadKey) name() cache.Name { return cache.Name{Spelling: k.key, Key: k.key} }

// lead is what is known of one name that nodes were led to.
type lead struct {
	tap *tap
	leadKey

	users map[*node]struct{}

	state  state
	late   bool                // it is unknown, and nobody should wait for it any longer
	res    *wire.Resource      // found
	err    *wire.ResourceError // failed; found: an error beside it that takes nothing away (ERR-1)
	serial uint64              // of what is known: no two are the same
	change uint64              // number of the change in the store that brought it

	read contents // what was read of res
}

// take takes over what the store says.
func (l *lead) take(to state, res *wire.Resource, err *wire.ResourceError, change uint64) {
	r := l.tap.resolver
	r.serial++
	l.state, l.res, l.err, l.serial, l.change = to, res, err, r.serial, change
	l.late, l.read = false, contents{}
	l.touch()
}

// fail takes over an error. Unless that means that there is nothing, what is held stays
// (ERR-1).
func (l *lead) fail(err *wire.ResourceError, change uint64) {
	if !err.Transient() || l.state != found {
		l.take(failed, nil, err, change)
		return
	}
	l.err = err
	l.touch()
}

// touch has the users look again.
func (l *lead) touch() {
	for n := range l.users {
		n.touch()
	}
}

// passes reports whether its content is not to be cached (TTL-5).
func (l *lead) passes() bool { return l.res != nil && l.res.DoNotCache }

// leave ends a node's use of it.
func (l *lead) leave(n *node) {
	delete(l.users, n)
	if len(l.users) == 0 {
		l.tap.unused = append(l.tap.unused, l)
		l.tap.resolver.visit(l.tap)
	}
}

// ask has it subscribed to.
func (l *lead) ask() {
	ch := l.tap.want(l.typeURL)
	ch.Subscribe = append(ch.Subscribe, l.name())
	l.tap.resolver.visit(l.tap)
}
