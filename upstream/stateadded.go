package upstream

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// addedPause is how long a server may leave names unanswered that were added on a stream, before it is asked for them on
// another one.
const addedPause = time.Second

// addedNames are names of a type that were added on a stream, and that the server has not answered. It is asked for
// each once on a stream of its own.
type addedNames struct {
	names map[string]struct{}
	due   time.Time // when to ask; zero: it is not known yet, or it goes on
	asked []string  // those that are asked for now
}

// want notes that a name was added, and leave that it is not wanted any more.
func (a *addedNames) want(name string) {
	if a.names == nil {
		a.names = make(map[string]struct{})
	}
	a.names[name] = struct{}{}
}

func (a *addedNames) leave(name string) { delete(a.names, name) }

// came notes the resources of a response.
func (a *addedNames) came(resources []*wire.Resource) {
	if len(a.names) > 0 {
		for _, r := range resources {
			a.take(r)
		}
	}
}

// take reports whether a resource answers one of the names, and takes that for answered.
func (a *addedNames) take(r *wire.Resource) (answers bool) {
	answers = a.answered(r.Name)
	for _, alias := range r.Aliases() {
		answers = a.answered(alias) || answers
	}
	return answers
}

func (a *addedNames) answered(name string) bool {
	key := keyOf(name)
	_, waited := a.names[key]
	delete(a.names, key)
	return waited
}

// keyOf is the spelling under which a name is asked for.
func keyOf(name string) string {
	if keyer.IsXDSTP(name) {
		if key, err := keyer.Key(name); err == nil {
			return key
		}
	}
	return name
}

// awaitAdded notes names that were added on the stream.
func (t *stateType) awaitAdded(names []string) {
	for _, name := range names {
		if !collection(name) && !has(t.last, name) {
			t.added.want(name)
		}
	}
}

// awaitAdded notes when the server is to be asked for names that were added.
func (k *streamLink) awaitAdded(typeURL string, now time.Time) {
	d, state := k.dialect.(*stateDialect)
	if !state {
		return
	}
	t := d.types[typeURL]
	if t == nil || len(t.added.names) == 0 || !t.added.due.IsZero() || t.added.asked != nil {
		return
	}
	t.added.due = now
	if k.client.remote.up.lists.of(k.line.replica, typeURL) != partialLists {
		t.added.due = now.Add(addedPause)
	}
}

// addedAt is when names that were added are due, zero if none are.
func (k *streamLink) addedAt() (at time.Time) {
	if d, state := k.dialect.(*stateDialect); state {
		for _, t := range d.types {
			at = notify.Earlier(at, t.added.due)
		}
	}
	return at
}

// elapseAdded asks for the names that are due.
func (k *streamLink) elapseAdded(now time.Time) {
	d, state := k.dialect.(*stateDialect)
	if !state {
		return
	}
	for typeURL, t := range d.types {
		if due(&t.added.due, now) {
			k.askAdded(typeURL, t)
		}
	}
}

// askAdded asks for the names of a type that were added and are not answered.
func (k *streamLink) askAdded(typeURL string, t *stateType) {
	moot := func(m manner) bool { return m == oneStreamOnly }
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(t.added.names)), func(name string) bool { return !has(t.last, name) })
	if len(names) == 0 || moot(k.client.remote.up.lists.of(k.line.replica, typeURL)) {
		clear(t.added.names)
		return
	}
	t.added.asked = names
	k.check(listCheck{
		query: &query{stream: k.line.id, typeURL: typeURL, names: names}, moot: moot,
		then: func(answer *wire.Response, err error) { k.askedAdded(typeURL, t, answer, err) },
	})
}

// askedAdded takes the result: of the names, the stream has not answered some by now. Resources of the stream are newer.
func (k *streamLink) askedAdded(typeURL string, t *stateType, answer *wire.Response, err error) {
	if !k.line.serving() {
		return
	}
	now, asked := time.Now(), t.added.asked
	t.added.asked = nil
	if d := k.doubt; d != nil && d.envelope.typeURL == typeURL {
		t.added.due = now.Add(addedPause) // the list that waits may not have them
		return
	}
	switch {
	case answer != nil:
		k.takeAdded(t, answer, now)
		fallthrough
	case errors.Is(err, errMoot), errors.Is(err, errSilent), errors.Is(err, errUnwilling):
		for _, name := range asked {
			t.added.leave(name)
		}
	}
	if err != nil {
		k.client.report.log.Debug("endpoint was not asked again for names that were added", "type", typeURL, "error", err)
		now = now.Add(k.client.cfg.Keepalive.Response)
	}
	k.awaitAdded(typeURL, now)
}

// takeAdded hands the Store the resources of an answer whose names were added.
func (k *streamLink) takeAdded(t *stateType, answer *wire.Response, now time.Time) {
	c, asked := k.client, len(t.added.asked)
	found := *answer
	found.Partial, found.Beside = true, true
	found.Resources = slices.DeleteFunc(slices.Clone(answer.Resources), func(r *wire.Resource) bool { return !t.added.take(r) })
	if len(found.Resources) == 0 {
		c.report.obs.ListChecked(CheckNothing)
		return
	}
	if err := c.session.safety.apply(c.store, k.line.id, &found, now); err != nil {
		c.report.noteRejected(found.TypeURL, found.Nonce, err, now)
	}
	c.report.obs.ListChecked(CheckAdded)
	c.report.log.Log(c.remote.ctx, slog.LevelDebug, "endpoint has names that it left unanswered", "type", found.TypeURL,
		"names", len(found.Resources), "asked", asked)
	k.learn(k.line.replica, found.TypeURL, partialLists)
	c.session.settle()
}
