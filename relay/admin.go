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
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
)

// adminIndex is the admin port's front page.
const adminIndex = `xdsrelay %s

/metrics                   Prometheus metrics
/healthz                   200 while the process lives
/readyz                    200 if the relay is ready for clients, otherwise 503 and the reason
/clients?node=             the clients' streams and polls: subscriptions, acknowledgements, rejections
/upstreams                 the control planes: sessions, streams, cached resources by type
/scopes?type=&rule=&scope= the clients that share by the aggregation rules, and the differences between their nodes
/resources?type=&name=     the cached resources; payload=true shows payloads, except those of secrets
/config                    the configuration in force, with defaults; errors of a reload; keys that need a restart
/check                     a consistency check of the whole cache; it locks a store during the check
/debug/pprof/              profiles
`

// adminHandler serves operators. Everything on it is read-only.
func (r *Relay) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, fmt.Sprintf(adminIndex, r.version))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.gather, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", r.serveReady)
	mux.HandleFunc("GET /clients", r.serveClients)
	mux.HandleFunc("GET /upstreams", r.serveUpstreams)
	mux.HandleFunc("GET /scopes", r.serveScopes)
	mux.HandleFunc("GET /resources", r.serveResources)
	mux.HandleFunc("GET /config", r.serveConfig)
	mux.HandleFunc("GET /check", r.serveCheck)
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

func indented(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) //nolint:errchkjson // views of plain fields; the client is gone if this fails
}

func (r *Relay) serveReady(w http.ResponseWriter, _ *http.Request) {
	reason, ok := r.ready()
	code := http.StatusOK
	if !ok {
		code = http.StatusServiceUnavailable
	}
	text(w, code, reason+"\n")
}

// serveClients lists the streams and the polls that are held, all or those of one node.
func (r *Relay) serveClients(w http.ResponseWriter, req *http.Request) {
	streams := r.server.Streams()
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
	Name      string        `json:"name"`
	Endpoints []string      `json:"endpoints,omitempty"`
	Path      string        `json:"path,omitempty"`           // of files
	Unusable  []string      `json:"unusable_files,omitempty"` // as they are now, and why
	Reached   bool          `json:"reached"`                  // at least once
	Retired   bool          `json:"retired,omitempty"`        // not configured any more, or differently; its streams end with their last clients
	Sessions  []sessionView `json:"sessions"`
}

// sessionView is one scope's session.
type sessionView struct {
	Scope           string      `json:"scope"`
	State           string      `json:"state"`
	Since           time.Time   `json:"since"`
	Endpoint        string      `json:"endpoint"`
	Clients         int         `json:"clients"`
	Streams         int         `json:"streams"`
	StreamsOpened   uint64      `json:"streams_opened"`
	StreamsLost     uint64      `json:"streams_lost"`
	EndpointChanges uint64      `json:"endpoint_changes"`
	Requests        uint64      `json:"requests"`
	Responses       uint64      `json:"responses"`
	Acks            uint64      `json:"acks"`
	Nacks           uint64      `json:"nacks"`
	LastResponse    time.Time   `json:"last_response,omitzero"`
	LastError       string      `json:"last_error,omitempty"`
	LastErrorAt     time.Time   `json:"last_error_at,omitzero"`
	LastRejection   string      `json:"last_rejection,omitempty"`
	LastRejected    time.Time   `json:"last_rejected,omitzero"`
	Quarantined     []string    `json:"quarantined,omitempty"` // types withheld because the server may end streams for them
	Unavailable     []string    `json:"unavailable,omitempty"` // types that have no service of their own
	Tables          []tableView `json:"tables"`
}

// tableView is what is cached of one type.
type tableView struct {
	TypeURL       string `json:"type_url"`
	Kind          string `json:"kind"`             // wildcard, or named: names and globs
	Stream        string `json:"stream,omitempty"` // upstream
	Subscriptions int    `json:"subscriptions"`    // upstream
	Collections   int    `json:"collections"`
	Resources     int64  `json:"resources"`
	Bytes         int64  `json:"bytes"`
	Tombstones    int    `json:"tombstones"`
	Followers     int    `json:"followers"` // clients' cursors
	Watchers      int64  `json:"watchers"`  // clients' named subscriptions
	Pins          int    `json:"pins"`      // names and globs that are fetched ahead
}

func (r *Relay) serveUpstreams(w http.ResponseWriter, _ *http.Request) {
	now := r.now.Load().config.Upstreams
	views := make([]upstreamView, 0, len(now))
	sessions := r.hub.all()
	planes, retired := r.hub.census()
	for _, u := range now {
		if p := planes[u.Name]; p != nil { // else a reload is under way
			views = append(views, r.viewPlane(p, u, sessions))
		}
	}
	for _, p := range retired {
		v := r.viewPlane(p, p.config, sessions)
		v.Retired = true
		views = append(views, v)
	}
	indented(w, views)
}

func (r *Relay) viewPlane(p *plane, u config.Upstream, sessions []*session) upstreamView {
	v := upstreamView{Name: u.Name, Endpoints: u.Endpoints, Path: u.Path, Reached: p.reached.Load(), Sessions: []sessionView{}}
	if f := r.hub.filesOf(p); f != nil {
		v.Unusable = f.Problems()
	}
	for _, s := range sessions {
		if s.key.of == p {
			v.Sessions = append(v.Sessions, r.viewSession(s))
		}
	}
	return v
}

func (r *Relay) viewSession(s *session) sessionView {
	st := s.client.Status()
	v := sessionView{
		Scope: s.key.scope, State: string(st.State), Since: st.Since, Endpoint: st.Endpoint,
		Clients: r.hub.users(s), Streams: st.Streams, StreamsOpened: st.Opened, StreamsLost: st.Lost,
		EndpointChanges: st.EndpointChanges, Requests: st.Requests, Responses: st.Responses,
		Acks: st.Acks, Nacks: st.Nacks, LastResponse: st.LastResponse, Quarantined: st.Quarantined,
		Unavailable: st.Unavailable, Tables: []tableView{},
	}
	if st.LastError != nil {
		v.LastError, v.LastErrorAt = st.LastError.Error(), st.LastError.At
	}
	if st.LastRejection != nil {
		v.LastRejection, v.LastRejected = st.LastRejection.Error(), st.LastRejection.At
	}
	for _, t := range s.store.Stats() {
		v.Tables = append(v.Tables, tableView(t))
	}
	return v
}

func (r *Relay) serveCheck(w http.ResponseWriter, _ *http.Request) {
	var errs []error
	for _, s := range r.hub.all() {
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
