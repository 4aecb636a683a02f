package upstream

import (
	"slices"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// WildcardForm is how an incremental upstream is asked for the wildcard of a type (SUB-14). In the state of the world it is
// the legacy form in any case.
type WildcardForm string

// The forms.
const (
	WildcardAuto     WildcardForm = "auto"     // the legacy one, and "*" beside it where that is not answered; the default
	WildcardLegacy   WildcardForm = "legacy"   // a first request that names nothing
	WildcardExplicit WildcardForm = "explicit" // "*"
)

// explicitAfter is how long a first request that names nothing may stay unanswered, before "*" is asked for.
const explicitAfter = 5 * time.Second

// wildcards has how the servers of an upstream answer first requests that name nothing. Its methods may be called from
// any goroutine.
type wildcards struct {
	form     WildcardForm
	answered atomic.Bool // such a request was, for any type
	needed   atomic.Bool // "*" brought resources that such a request did not
}

// of is the form in which a stream that begins asks: auto stands for both, one behind the other.
func (w *wildcards) of() WildcardForm {
	switch {
	case w.form != WildcardAuto:
		return w.form
	case w.needed.Load():
		return WildcardAuto
	}
	return WildcardLegacy
}

// unheard is a first request for a wildcard that the server has not answered on its stream.
type unheard struct {
	due      time.Time           // when "*" is asked for; zero: it was
	explicit bool                // "*" was asked for
	named    map[string]struct{} // what is asked for by name on the same stream: the answer to that is none to this
}

// besides notes names that are asked for on the stream.
func (q *unheard) besides(names []string) {
	if q == nil {
		return
	}
	for _, name := range names {
		if q.named == nil {
			q.named = make(map[string]struct{})
		}
		if name != wildcard {
			q.named[name] = struct{}{}
		}
	}
}

// answers reports whether a response is an answer to the wildcard: it has something else than what was named, or nothing.
func (q *unheard) answers(r *wire.Received) bool {
	other := func(name string) bool {
		_, named := q.named[name]
		return !named
	}
	return len(r.Resources)+len(r.Removed) == 0 ||
		slices.ContainsFunc(r.Resources, func(x *wire.Resource) bool { return other(x.Name) }) || slices.ContainsFunc(r.Removed, other)
}

// awaitAll notes that a type's wildcard was asked for, or let go.
func (k *streamLink) awaitAll(sub wire.Subscription, first bool, now time.Time) {
	if slices.Contains(sub.Unsubscribe, wildcard) {
		delete(k.unheard, sub.TypeURL)
		k.client.report.noteQuiet(sub.TypeURL, false)
	}
	w := &k.client.remote.up.wildcards
	if !first || !slices.Contains(sub.Subscribe, wildcard) || len(sub.Versions) > 0 || k.client.cfg.APIType.State() || w.form != WildcardAuto || w.needed.Load() {
		return
	}
	if k.unheard == nil {
		k.unheard = make(map[string]*unheard)
	}
	k.unheard[sub.TypeURL] = &unheard{due: now.Add(explicitAfter)}
}

// quietAt is when "*" is to be asked for next, zero if it is not.
func (k *streamLink) quietAt() (at time.Time) {
	for _, q := range k.unheard {
		at = notify.Earlier(at, q.due)
	}
	return at
}

// elapseQuiet asks for "*" where the first request has stayed unanswered. A server that answered such a request of another
// type knows the form.
func (k *streamLink) elapseQuiet(now time.Time) {
	c := k.client
	for typeURL, q := range k.unheard {
		if !due(&q.due, now) {
			continue
		}
		c.report.noteQuiet(typeURL, true)
		if c.remote.up.wildcards.answered.Load() {
			continue
		}
		q.explicit = true
		c.report.log.Info(`endpoint does not answer a first request that names nothing: asking for "*" too`,
			"endpoint", k.line.replica.name, "type", typeURL)
		k.say([]request{&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: []string{wildcard}}})
	}
}

// heardAll notes a response of a type.
func (k *streamLink) heardAll(r *wire.Received) {
	c, q := k.client, k.unheard[r.TypeURL]
	switch w := &c.remote.up.wildcards; {
	case q == nil && !w.needed.Load():
		return
	case q == nil:
	case !q.answers(r):
		return
	case !q.explicit:
		w.answered.Store(true)
	case len(r.Resources) == 0:
		c.report.noteQuiet(r.TypeURL, false)
		return // an answer to either of the two requests
	case !w.needed.Swap(true):
		c.report.log.Info(`endpoint answers "*" and no first request that names nothing: asking for both from now on`,
			"endpoint", k.line.replica.name, "type", r.TypeURL)
	}
	delete(k.unheard, r.TypeURL)
	c.report.noteQuiet(r.TypeURL, false)
}
