package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
)

// adminState shows a relay to the pages of the admin port.
type adminState struct{ relay *Relay }

// Clients implements admin.State.
func (a adminState) Clients(of func(node string) bool, names downstream.Wanted) []downstream.Status {
	return append(a.cached(of, names), a.relay.passage.Clients(of)...)
}

// Passed implements admin.State.
func (a adminState) Passed(c *admin.Command) (*admin.Passthrough, error) {
	return a.relay.passthrough(c)
}

// cached lists the streams and polls that the cache serves.
func (a adminState) cached(of func(node string) bool, names downstream.Wanted) []downstream.Status {
	all, origins := a.relay.server.Clients(of, names), a.origins()
	for i := range all {
		for url, v := range all[i].Types {
			for _, s := range v.Stores {
				if o, known := origins[s]; known {
					v.From = append(v.From, o)
				}
			}
			all[i].Types[url] = v
		}
	}
	return all
}

// Gone implements admin.State.
func (a adminState) Gone() []downstream.Gone { return a.relay.server.Gone() }

// About implements admin.State.
func (a adminState) About() *admin.About {
	r := a.relay
	now, failed, ready := r.now.Load(), r.failed.Load(), r.health.ready(time.Now())
	v := &admin.About{
		Version: r.version, Started: r.started, Ready: ready.Ready, Reason: ready.Reason, File: now.config.File(),
		Hash: now.hash, InForceSince: now.since, LastGone: r.server.LastGone(), Certificates: certificates(now.config),
	}
	for _, c := range now.waiting {
		v.Waiting = append(v.Waiting, c.String())
	}
	if failed != nil {
		v.Failed, v.FailedAt = failed.err.Error(), failed.at
		_, v.Refuses = errors.AsType[*RefusesError](failed.err)
	}
	return v
}

// Changes implements admin.State.
func (a adminState) Changes(since time.Time, payloads downstream.Wanted) *admin.Changes {
	v := &admin.Changes{Changes: []admin.Change{}, Events: a.relay.events.Since(since)}
	for _, s := range a.relay.hub.all() {
		past, from := s.store.Operator().Changes(since)
		v.From = notify.Later(v.From, from)
		for _, c := range past {
			x := admin.Change{
				At: c.At, Upstream: s.key.plane, Scope: s.key.scope, TypeURL: c.TypeURL, Name: c.Name, Old: versionOf(c.Before), New: versionOf(c.After),
			}
			if payloads != nil && payloads(c.TypeURL, c.Name) {
				x.Before, x.After = a.relay.secrets.JSON(c.Before, c.TypeURL, payload.BySize), a.relay.secrets.JSON(c.After, c.TypeURL, payload.BySize)
			}
			v.Changes = append(v.Changes, x)
		}
	}
	return v
}

// origins says what each store is of.
func (a adminState) origins() map[*cache.Store]downstream.Origin {
	now, all := a.relay.router.now.Load(), make(map[*cache.Store]downstream.Origin)
	for _, s := range a.relay.hub.list() {
		o := downstream.Origin{Upstream: s.key.plane, Scope: s.key.scope}
		if s.key.scope != xdstpScope {
			o.Rule = s.comparison.view(now).Rule
		}
		all[s.store] = o
	}
	return all
}

// Held implements admin.State.
func (a adminState) Held(c *admin.Command) (*admin.HeldPage, error) {
	o := a.relay.operator()
	selectors, err := o.selectors(c)
	if err != nil {
		return nil, err
	}
	return o.heldPage(selectors, time.Now()), nil
}

// Generations implements admin.State.
func (a adminState) Generations(c *admin.Command) ([]admin.Generations, error) {
	o := a.relay.operator()
	selectors, err := o.selectors(c)
	if err != nil {
		return nil, err
	}
	views := []admin.Generations{}
	for _, s := range o.selected(selectors) {
		views = append(views, admin.Generations{Upstream: s.key.plane, Scope: s.key.scope, Generations: s.store.Operator().Generations()})
	}
	return views, nil
}

func viewLoads(st loadreport.Status) *admin.Loads {
	v := &admin.Loads{State: string(st.State), Clients: st.Clients, LastSent: st.LastSent}
	if st.Interval > 0 {
		v.Interval = st.Interval.String()
	}
	return v
}

// Upstreams implements admin.State.
func (a adminState) Upstreams() []admin.Upstream {
	now := a.relay.now.Load().config.Upstreams
	views := make([]admin.Upstream, 0, len(now))
	sessions := a.relay.hub.all()
	planes, retired := a.relay.hub.census()
	available := a.relay.health.availabilities(time.Now())
	for _, u := range now {
		p := planes[u.Name]
		if p == nil { // a reload is under way
			continue
		}
		v := a.viewPlane(p, u, sessions)
		for _, is := range available {
			if is.Name == u.Name {
				v.State, v.StateSince, v.Cause = string(is.State), is.Since, is.Cause
			}
		}
		views = append(views, v)
	}
	for _, p := range retired {
		v := a.viewPlane(p, p.config, sessions)
		v.Retired = true
		views = append(views, v)
	}
	return views
}

func (a adminState) viewPlane(p *plane, u config.Upstream, sessions []*session) admin.Upstream {
	v := admin.Upstream{Name: u.Name, Endpoints: u.Endpoints, Path: u.Path, Reached: p.everReached(), Required: u.Required, Sessions: []admin.Session{}}
	if from, _ := a.relay.hub.reachable(p); from != nil {
		v.Failures = from.Causes()
	}
	contact := p.contact()
	v.LastAnswer, v.Unanswered, v.Open = contact.Answered, contact.Unanswered, contact.Open
	v.Answers = admin.NewAnswers(contact.Took, time.Now())
	if f := a.relay.hub.filesOf(p); f != nil {
		v.Unusable = f.Problems()
	}
	for _, s := range sessions {
		if s.key.of == p {
			v.Sessions = append(v.Sessions, a.viewSession(s))
		}
	}
	v.Loads = a.viewPlaneLoads(p, u, sessions)
	for x, n := range a.relay.hub.served(p, sessions) {
		v.Replicas = append(v.Replicas, admin.Replica{
			Endpoint: x.Endpoint, Priority: x.Priority, Sessions: n, Spare: x.Spare,
			UnreachableSince: x.UnreachableSince, SilentSince: x.SilentSince, LastAnswer: x.Answered,
		})
	}
	return v
}

// viewPlaneLoads adds up what the scopes of a plane say of their load reports.
func (a adminState) viewPlaneLoads(p *plane, u config.Upstream, sessions []*session) *admin.Loads {
	sum := p.gate.Status()
	for _, s := range sessions {
		if s.key.of == p && s.loads != nil {
			sum = sum.Add(s.loads.Status())
		}
	}
	v := viewLoads(sum)
	if u.LoadReports == config.LoadReportsOff {
		v.State = string(config.LoadReportsOff)
	}
	return v
}

func (a adminState) viewSession(s *session) admin.Session {
	st := s.client.Status()
	v := admin.Session{
		Scope: s.key.scope, State: string(st.State), Since: st.Since, StaleSince: st.Freshness.Stale, Endpoint: st.Endpoint,
		Clients: a.relay.hub.users(s), Streams: st.Streams, StreamsOpened: st.Opened, StreamsLost: st.Lost,
		EndpointChanges: st.EndpointChanges, Requests: st.Requests, Responses: st.Responses,
		Acks: st.Acks, Nacks: st.Nacks, LastResponse: st.Freshness.LastResponse, Refused: st.Refused,
		Unavailable: st.Unavailable, Unanswered: st.Unanswered, Tables: s.store.Stats(),
	}
	if s.loads != nil {
		if loads := s.loads.Status(); loads.Clients > 0 || !loads.LastSent.IsZero() {
			v.Loads = viewLoads(loads)
		}
	}
	if st.LastError != nil {
		v.LastError, v.LastErrorAt = st.LastError.Error(), st.LastError.At
	}
	if st.LastRejection != nil {
		v.LastRejection, v.LastRejected = st.LastRejection.Error(), st.LastRejection.At
	}
	if n, asOf := s.store.Snapshots().Restored(); n > 0 {
		v.Restored, v.RestoredAsOf = n, asOf
	}
	for _, h := range s.store.Operator().Held(false) {
		if h.Why == cache.HeldByGuard {
			v.HeldUntil = h.Until
		}
	}
	return v
}

// Check implements admin.State. There is one check at a time. A store is locked while it is looked through: between two
// of them updates have as long.
func (a adminState) Check() error {
	a.relay.checking <- struct{}{}
	defer func() { <-a.relay.checking }()
	var errs []error
	for _, s := range a.relay.hub.all() {
		began := time.Now()
		if err := s.store.Check(); err != nil {
			errs = append(errs, fmt.Errorf("upstream %s, scope %q: %w", s.key.plane, s.key.scope, err))
		}
		<-time.After(time.Since(began))
	}
	return errors.Join(errs...)
}
