package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// adminIndex is the admin port's front page.
const adminIndex = `xdsrelay %s

/metrics                   Prometheus metrics
/livez                     200 while every lock and loop makes progress, otherwise 503 and what is stuck; /healthz is the same
/readyz                    200 if the relay is ready for clients, otherwise 503 and the reason; output=json shows each upstream
/clients?node=             the clients' streams and polls: subscriptions, acknowledgements, rejections
/upstreams                 the control planes: sessions, streams, cached resources by type
/scopes?type=&rule=&scope= the clients that share by the aggregation rules, and the differences between their nodes
/resources?type=&name=     the cached resources; payload=true shows payloads, except those of secrets
/held?upstream=&scope=&type= what clients are not told yet, why, and the difference; POST /hold and /release change it
/generations               what clients of each scope had before; POST /rollback goes back to it
/config                    the configuration in force, with defaults; errors of a reload; keys that need a restart
/check                     a consistency check of the whole cache; it locks a store during the check
/debug/pprof/              profiles
`

// adminPort serves operators.
type adminPort struct{ relay *Relay }

// handler has all pages. All but the commands of operators are read-only.
func (a adminPort) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, fmt.Sprintf(adminIndex, a.relay.version))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.relay.gather, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /livez", a.serveLive)
	mux.HandleFunc("GET /healthz", a.serveLive)
	mux.HandleFunc("GET /readyz", a.serveReady)
	mux.HandleFunc("GET /clients", a.serveClients)
	mux.HandleFunc("GET /upstreams", a.serveUpstreams)
	mux.HandleFunc("GET /scopes", a.serveScopes)
	mux.HandleFunc("GET /resources", a.serveResources)
	mux.HandleFunc("GET /held", a.serveHeld)
	o := a.operator()
	mux.Handle("POST /hold", a.command("hold", o.hold))
	mux.Handle("POST /release", a.command("release", o.free))
	mux.Handle("POST /rollback", a.command("rollback", o.rollback))
	mux.HandleFunc("GET /generations", a.serveGenerations)
	mux.HandleFunc("GET /config", a.serveConfig)
	mux.HandleFunc("GET /check", a.serveCheck)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

func text(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body)) // the client is gone if this fails
}

func indented(w http.ResponseWriter, v any) { indentedAs(w, http.StatusOK, v) }

func indentedAs(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) //nolint:errchkjson // views of plain fields; the client is gone if this fails
}

// serveClients lists the streams and the polls that are held, all or those of one node.
func (a adminPort) serveClients(w http.ResponseWriter, req *http.Request) {
	streams := a.relay.server.Streams()
	list := make([]downstream.Status, 0, len(streams))
	for _, s := range streams {
		if node := req.URL.Query().Get("node"); node == "" || node == s.Node {
			list = append(list, s)
		}
	}
	indented(w, list)
}

// upstreamView is one control plane on /upstreams.
type upstreamView struct {
	Name       string           `json:"name"`
	Endpoints  config.Endpoints `json:"endpoints,omitempty"`
	Failures   []upstream.Cause `json:"endpoint_failures,omitempty"` // of those replicas that did not answer when they were last tried
	Path       string           `json:"path,omitempty"`              // of files
	Unusable   []string         `json:"unusable_files,omitempty"`    // as they are now, and why
	Reached    bool             `json:"reached"`                     // at least once
	LastAnswer time.Time        `json:"last_answer,omitzero"`        // of any server, to any scope
	Unanswered time.Time        `json:"unanswered_since,omitzero"`   // when the oldest request was written that a server owes an answer
	Required   bool             `json:"required"`                    // readiness waits for it
	Retired    bool             `json:"retired,omitempty"`           // not configured any more, or differently; its streams end with their last clients
	Replicas   []replicaView    `json:"replicas,omitempty"`          // the servers, also those of names, by priority
	Loads      *loadsView       `json:"load_reports,omitempty"`
	Sessions   []sessionView    `json:"sessions"`
}

// replicaView is one server of a control plane.
type replicaView struct {
	Endpoint         string    `json:"endpoint"`        // as sessions have it
	Priority         int       `json:"priority"`        // 0 is the first
	Sessions         int       `json:"sessions"`        // that have streams to it
	Spare            bool      `json:"spare,omitempty"` // an address of the other IP version than those in use
	UnreachableSince time.Time `json:"unreachable_since,omitzero"`
	SilentSince      time.Time `json:"silent_since,omitzero"` // takes connections and does not answer
	LastAnswer       time.Time `json:"last_answer,omitzero"`
}

// loadsView tells whether load reports flow.
type loadsView struct {
	State    string    `json:"state"`              // off, or a loadreport.State
	Clients  int       `json:"clients"`            // that report, or wait for what the control plane wants
	Interval string    `json:"interval,omitempty"` // of their reports; the shortest of all scopes
	LastSent time.Time `json:"last_sent,omitzero"` // to the control plane
}

func viewLoads(st loadreport.Status) *loadsView {
	v := &loadsView{State: string(st.State), Clients: st.Clients, LastSent: st.LastSent}
	if st.Interval > 0 {
		v.Interval = st.Interval.String()
	}
	return v
}

// sessionView is one scope's session.
type sessionView struct {
	Scope           string            `json:"scope"`
	State           string            `json:"state"`
	Since           time.Time         `json:"since"`
	StaleSince      time.Time         `json:"stale_since,omitzero"` // when it may have begun to miss changes
	Endpoint        string            `json:"endpoint"`
	Clients         int               `json:"clients"`
	Streams         int               `json:"streams"`
	StreamsOpened   uint64            `json:"streams_opened"`
	StreamsLost     uint64            `json:"streams_lost"`
	EndpointChanges uint64            `json:"endpoint_changes"`
	Requests        uint64            `json:"requests"`
	Responses       uint64            `json:"responses"`
	Acks            uint64            `json:"acks"`
	Nacks           uint64            `json:"nacks"`
	LastResponse    time.Time         `json:"last_response,omitzero"`
	LastError       string            `json:"last_error,omitempty"`
	LastErrorAt     time.Time         `json:"last_error_at,omitzero"`
	LastRejection   string            `json:"last_rejection,omitempty"`
	LastRejected    time.Time         `json:"last_rejected,omitzero"`
	Refused         map[string]string `json:"refused,omitempty"`       // types that the server ends streams for, and what it said
	Unavailable     []string          `json:"unavailable,omitempty"`   // types that have no service of their own
	Loads           *loadsView        `json:"load_reports,omitempty"`  // nil: no client has reported
	HeldUntil       time.Time         `json:"held_until,omitzero"`     // when clients are told of the losses that tables hold
	Restored        int               `json:"restored,omitempty"`      // resources of an earlier process that the control plane has not confirmed
	RestoredAsOf    time.Time         `json:"restored_as_of,omitzero"` // when they were last known to be current
	Tables          []cache.TypeStats `json:"tables"`
}

func (a adminPort) serveUpstreams(w http.ResponseWriter, _ *http.Request) {
	now := a.relay.now.Load().config.Upstreams
	views := make([]upstreamView, 0, len(now))
	sessions := a.relay.hub.all()
	planes, retired := a.relay.hub.census()
	for _, u := range now {
		if p := planes[u.Name]; p != nil { // else a reload is under way
			views = append(views, a.viewPlane(p, u, sessions))
		}
	}
	for _, p := range retired {
		v := a.viewPlane(p, p.config, sessions)
		v.Retired = true
		views = append(views, v)
	}
	indented(w, views)
}

func (a adminPort) viewPlane(p *plane, u config.Upstream, sessions []*session) upstreamView {
	v := upstreamView{Name: u.Name, Endpoints: u.Endpoints, Path: u.Path, Reached: p.everReached(), Required: u.Required, Sessions: []sessionView{}}
	if from, _ := a.relay.hub.reachable(p); from != nil {
		v.Failures = from.Causes()
	}
	contact := p.contact()
	v.LastAnswer, v.Unanswered = contact.Answered, contact.Unanswered
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
		v.Replicas = append(v.Replicas, replicaView{x.Endpoint, x.Priority, n, x.Spare, x.UnreachableSince, x.SilentSince, x.Answered})
	}
	return v
}

// viewPlaneLoads adds up what the scopes of a plane say of their load reports.
func (a adminPort) viewPlaneLoads(p *plane, u config.Upstream, sessions []*session) *loadsView {
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

func (a adminPort) viewSession(s *session) sessionView {
	st := s.client.Status()
	v := sessionView{
		Scope: s.key.scope, State: string(st.State), Since: st.Since, StaleSince: st.Freshness.Stale, Endpoint: st.Endpoint,
		Clients: a.relay.hub.users(s), Streams: st.Streams, StreamsOpened: st.Opened, StreamsLost: st.Lost,
		EndpointChanges: st.EndpointChanges, Requests: st.Requests, Responses: st.Responses,
		Acks: st.Acks, Nacks: st.Nacks, LastResponse: st.Freshness.LastResponse, Refused: st.Refused,
		Unavailable: st.Unavailable, Tables: s.store.Stats(),
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

func (a adminPort) serveCheck(w http.ResponseWriter, _ *http.Request) {
	var errs []error
	for _, s := range a.relay.hub.all() {
		if err := s.store.Check(); err != nil {
			errs = append(errs, fmt.Errorf("upstream %s, scope %q: %w", s.key.plane, s.key.scope, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		text(w, http.StatusInternalServerError, strings.TrimSpace(err.Error())+"\n")
		return
	}
	text(w, http.StatusOK, "consistent\n")
}
