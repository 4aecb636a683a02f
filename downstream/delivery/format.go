package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// format returns the format of a form. own says that the relay itself is the client.
func (f Form) format(own bool) format {
	switch {
	case own:
		return valueFormat{}
	case !f.State:
		return incrementalFormat{}
	case f.Wrapped:
		return wrappedFormat{}
	}
	return bareFormat{}
}

// incrementalFormat is the incremental form: resources with names, versions and TTLs, and removals.
type incrementalFormat struct{}

func (incrementalFormat) version(w *typeSub, t *cache.Table) string {
	if w.subs.screen != nil {
		return "" // the server's changes with what the client may not know of
	}
	return t.SystemVersion()
}

func (incrementalFormat) measure(r *wire.Resource, known string) (name string, size int) {
	return known, r.Size() + len(known) + nameOverhead
}

func (incrementalFormat) add(to *wire.Builder, r *wire.Resource, name string, ttl time.Duration) {
	switch {
	case ttl > 0:
		to.AddTTL(r, name, ttl)
	case name == r.Name:
		to.Add(r)
	default:
		to.AddAs(r, name)
	}
}

func (incrementalFormat) fail(b *Batch, err *wire.ResourceError, name string) {
	b.Body.AddError(*err, name)
}

func (incrementalFormat) absence() *wire.ResourceError { return nil }

// valueFormat is the incremental form for the relay itself, which takes values.
type valueFormat struct{ incrementalFormat }

func (valueFormat) fail(b *Batch, err *wire.ResourceError, name string) {
	x := b.extras()
	x.failed = append(x.failed, cache.Failure{Key: name, Error: *err})
}

// stateFormat is what the two forms of the state of the world have in common: no removals
// (RES-3), and an error in place of the first word that there is no such resource (ABS-1).
type stateFormat struct{}

func (stateFormat) version(w *typeSub, _ *cache.Table) string {
	return w.version().with(digest.Sum{})
}

func (stateFormat) fail(b *Batch, err *wire.ResourceError, name string) {
	b.Body.AddStateError(*err, name)
}

func (stateFormat) absence() *wire.ResourceError { return noSuchResource }

// bareFormat is the state of the world with bare payloads, which have the server's spelling (NAME-4).
// Only what has a TTL for the client goes in a Resource (TTL-1).
type bareFormat struct{ stateFormat }

func (bareFormat) measure(r *wire.Resource, _ string) (name string, size int) {
	return r.Name, r.Size() + len(r.Name) + nameOverhead
}

func (bareFormat) add(to *wire.Builder, r *wire.Resource, name string, ttl time.Duration) {
	if ttl > 0 {
		wrappedFormat{}.add(to, r, name, ttl)
	} else {
		to.AddAny(r)
	}
}

// wrappedFormat is the state of the world with each payload in a Resource (RES-13).
type wrappedFormat struct{ stateFormat }

func (wrappedFormat) measure(r *wire.Resource, known string) (name string, size int) {
	return known, r.Size() + len(known) + nameOverhead + wrapOverhead
}

func (wrappedFormat) add(to *wire.Builder, r *wire.Resource, name string, ttl time.Duration) {
	to.AddWrappedTTL(r, name, ttl)
}
