package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// hides reports whether a member does not exist to the client.
func (f *follower) hides(e *cache.Entry) bool {
	g := f.typeSub.subs.screen
	if g == nil {
		return false
	}
	name := f.name.of(e)
	served := name
	switch {
	case e.Exists():
		served = e.ServedName()
	case g.concealed[name]:
		return true
	}
	return !g.allows(Word, name, served)
}

// hidesKey is hides for a key of which an error is to be told.
func (f *follower) hidesKey(key string) bool {
	g := f.typeSub.subs.screen
	return g != nil && key != f.Collection().Key() && !g.judge.Allows(Word, g.typeURL, f.name.ofKey(key))
}

// knownEmpty reports whether a new follower may be told that there is nothing for it.
func (f *follower) knownEmpty() bool {
	c := f.Collection()
	if f.typeSub.subs.screen == nil {
		return (c.Len() == 0 && c.Answered())
	}
	return c.Answered() && f.NextChange() == nil
}

// conceals reports whether a client is told of an error as if there were no such resource: what is wrong with
// an entry or an alternative tells that something is there, also if the client may not have that (ACC-3).
func (w *typeSub) conceals(err *wire.ResourceError) bool {
	return w.subs.screen != nil && w.place.store.Resolved() && err.Code == codes.FailedPrecondition
}

// maskedError is what a client is told in place of an error that tells where alternatives led.
const maskedError = "the name leads to no resource"

// mask leaves out of an error of the resolver's which names it came by.
func (w *typeSub) mask(err *wire.ResourceError) *wire.ResourceError {
	if w.subs.screen == nil || !w.place.store.Resolved() {
		return err
	}
	return &wire.ResourceError{Name: err.Name, Code: err.Code, Message: maskedError}
}
