package upstream

import (
	"errors"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// doubt is a list of a full-state type that lacks resources which are asked for by name: they are gone, or only did
// not change. Until that is known the list waits, and so does all that the server sends behind it on the
// stream (ADS-3).
type doubt struct {
	arrival

	envelope envelope
	lacks    []string
	behind   []arrival // resources that the session had before the stream waited
}

// arrival is a response with the time at which it came.
type arrival struct {
	response *wire.Received
	at       time.Time
}

// settled reports whether lists that lack something are taken as they are.
func settled(m manner) bool { return m == wholeLists || m == oneStreamOnly }

// mayLack reports whether resources that a list lacks may be there all the same. What a stream is sent first of a type is
// an answer to a request without a version, and has all.
func (d *stateDialect) mayLack(r *wire.Response) bool {
	t := d.types[r.TypeURL]
	if t == nil || !d.checks || !d.fullState[r.TypeURL] || !t.heard || len(r.Resources) >= len(t.wanted.names) {
		return false
	}
	_, all := t.wanted.names[wildcard]
	return !all
}

// doubts reports whether a response waits until it is known which of the resources that it lacks are gone.
func (k *streamLink) doubts(r *wire.Received, e envelope, at time.Time) bool {
	d, state := k.dialect.(*stateDialect)
	if !state || !d.mayLack(&r.Response) || settled(k.client.remote.up.lists.of(k.line.replica, e.typeURL)) {
		return false
	}
	lacks, repeats := k.client.store.Lacks(k.line.id, &r.Response)
	if len(lacks) == 0 {
		return false
	}
	k.doubt = &doubt{arrival: arrival{r, at}, envelope: e, lacks: lacks}
	k.stream.pause()
	k.check(listCheck{
		query: &query{stream: k.line.id, typeURL: e.typeURL, names: d.types[e.typeURL].last}, moot: settled,
		learn: func(answer *wire.Response) manner {
			switch {
			case len(gone(lacks, answer)) < len(lacks):
				return partialLists
			case repeats:
				return wholeLists
			}
			return unknownManner // what changed may have been all that there was
		},
		then: k.decide,
	})
	return true
}

// gone are the names that an answer lacks.
func gone(names []string, answer *wire.Response) []string {
	has := make(map[string]struct{}, len(answer.Resources))
	for _, r := range answer.Resources {
		has[keyOf(r.Name)] = struct{}{}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, there := has[keyOf(name)]
		return there
	})
}

// decide takes up the list that waits, with the answer of the other stream or the reason why there is none, and what
// came behind it.
func (k *streamLink) decide(answer *wire.Response, err error) {
	d := k.doubt
	if k.doubt = nil; k.line.serving() {
		k.conclude(d, answer, err)
		k.accept(d.response, d.envelope, d.at)
	}
	for _, a := range d.behind {
		if k.line.link != link(k) {
			return
		}
		k.respond(a.response, a.at)
	}
	if k.doubt == nil {
		k.stream.resume()
	}
}

// conclude decides which resources a list removes: those that the other stream does not have either. Without an answer it is all that the
// list lacks, unless the server is known to send less than there is: then it is nothing, and the stream is to begin anew.
func (k *streamLink) conclude(d *doubt, answer *wire.Response, err error) {
	c, l, r := k.client, k.line, &d.response.Response
	result, log := CheckWhole, c.report.log.With("type", r.TypeURL, "lacked", len(d.lacks))
	switch {
	case answer != nil:
		removed := gone(d.lacks, answer)
		if len(removed) < len(d.lacks) {
			result, r.Partial, r.Removed = CheckPartial, true, removed
		}
		log.Debug("list lacked resources: asked on another stream which of them are gone", "gone", len(removed))
	case errors.Is(err, errMoot):
		return
	case c.remote.up.lists.of(l.replica, r.TypeURL) == partialLists:
		result, r.Partial, k.unsure = CheckUnanswered, true, true
		l.renewal.due = notify.Earlier(l.renewal.due, time.Now().Add(retry.Spread(renewPause)))
		log.Info("list lacks resources, and the endpoint does not say on another stream which of them are gone: keeping them until the stream begins anew", "error", err)
	default:
		result = CheckUnanswered
		log.Info("list lacks resources, and the endpoint does not say on another stream which of them are gone: removing all of them", "error", err)
	}
	c.report.obs.ListChecked(result)
}
