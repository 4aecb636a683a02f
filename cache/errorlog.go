package cache

import (
	linked "container/list"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// errorLog is the errors of a collection as a whole and of names in it (ERR-1), by number:
// the last one of each. Like members, errors have the number at which they came, and a
// cursor has the number of the last one that its client was told. Errors are rare: nil is
// an empty log. Guarded by Store.mu.
type errorLog struct {
	order linked.List // of *loggedError
	byKey map[string]*LoggedError

	// open says that the server gave, on the present stream, an error for the collection
	// as a whole that does not say what its members are. A member that the server does not
	// mention may exist all the same.
	open bool
}

// LoggedError is an error of one name; of the collection as a whole under its own key.
type LoggedError struct {
	number  uint64
	key     string
	err     *wire.ResourceError
	element *linked.Element
}

// Next is the error that came after it, nil if there is none.
func (e *LoggedError) Next() *LoggedError { return errorOf(e.element.Next()) }

func errorOf(element *linked.Element) *LoggedError {
	if element == nil {
		return nil
	}
	return element.Value.(*LoggedError) //nolint:forcetypeassert // nothing else is put there
}

// after returns the first error with a number above n, nil if there is none. It takes as
// many steps as there are such errors.
func (l *errorLog) after(n uint64) *LoggedError {
	if l == nil {
		return nil
	}
	var first *LoggedError
	for el := l.order.Back(); el != nil && errorOf(el).number > n; el = el.Prev() {
		first = errorOf(el)
	}
	return first
}

// get returns the error of a key, nil if there is none.
func (l *errorLog) get(key string) *wire.ResourceError {
	if l == nil || l.byKey[key] == nil {
		return nil
	}
	return l.byKey[key].err
}

// has reports whether the error of a key is re.
func (l *errorLog) has(key string, re *wire.ResourceError) bool {
	err := l.get(key)
	return err != nil && *err == *re
}

// leavesOpen reports whether the server said on the present stream that it does not know
// the members.
func (l *errorLog) leavesOpen() bool { return l != nil && l.open }

// with adds the error of a key that has none, and returns the log.
func (l *errorLog) with(number uint64, key string, err *wire.ResourceError) *errorLog {
	if l == nil {
		l = &errorLog{byKey: make(map[string]*LoggedError)}
	}
	x := &LoggedError{number: number, key: key, err: err}
	x.element = l.order.PushBack(x)
	l.byKey[key] = x
	return l
}

// without forgets the error of a key, and returns the log.
func (l *errorLog) without(key string) *errorLog {
	if l.get(key) == nil {
		return l
	}
	l.order.Remove(l.byKey[key].element)
	delete(l.byKey, key)
	if l.order.Len() == 0 {
		return nil
	}
	return l
}

// beyond returns the key of the oldest error, if there are more than limit.
func (l *errorLog) beyond(limit int) (key string, found bool) {
	if l == nil || l.order.Len() <= limit {
		return "", false
	}
	return errorOf(l.order.Front()).key, true
}

// size is the number of errors.
func (l *errorLog) size() int {
	if l == nil {
		return 0
	}
	return l.order.Len()
}

// check verifies the log of the collection with a key. is says whether an error may be in
// it as it is there.
func (l *errorLog) check(c *Checker, key string, newest uint64, is func(*LoggedError) bool) {
	if l == nil {
		return
	}
	last, n := uint64(0), 0
	for el := l.order.Front(); el != nil; el = el.Next() {
		x := errorOf(el)
		n++
		c.That(l.byKey[x.key] == x && x.element == el, "%q: the error of %q is not found", key, x.key)
		c.That(x.number > last && x.number <= newest, "%q: the error of %q is out of order", key, x.key)
		last = x.number
		c.That(is(x), "%q: the error of %q is another collection's, or %[2]q is there and its error is another one", key, x.key)
	}
	c.That(n > 0 && n == len(l.byKey), "%q: %d errors, %d by key", key, n, len(l.byKey))
	c.That(!l.open || l.get(key) != nil, "%q stands without an error", key)
}
