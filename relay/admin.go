package relay

import (
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// adminIndex is the admin port's front page.
const adminIndex = `xdsrelay %s

/metrics                   Prometheus metrics
/livez                     200 while every lock and loop makes progress, otherwise 503 and what is stuck; /healthz is the same
/readyz                    200 if the relay is ready for clients, otherwise 503 and the reason; output=json shows each upstream
` + admin.Index + `/config                    the configuration in force, with defaults; errors of a reload; keys that need a restart
/debug/pprof/              profiles
`

// adminPort serves operators.
type adminPort struct {
	relay   *Relay
	anybody bool // may ask, whatever the access of the admin port: names of scopes are not shown
}

// handler has all pages. All but the commands of operators are read-only.
func (a adminPort) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, req *http.Request) {
		if admin.WantsPage(req) {
			http.Redirect(w, req, "/ui/", http.StatusSeeOther)
			return
		}
		admin.Text(w, http.StatusOK, fmt.Sprintf(adminIndex, a.relay.version))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.relay.gather, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	a.handleProbes(mux)
	mux.HandleFunc("GET /config", a.serveConfig)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	pages := &admin.Pages{
		State: adminState{a.relay}, Commands: a.relay.operator(), Log: a.relay.log, Audit: a.relay.audit, Trail: a.relay.trail, Events: &a.relay.events, Operator: operatorOf, Contain: a.contain,
	}
	pages.Handle(mux)
	return mux
}

// probes has the pages for orchestrators alone.
func (a adminPort) probes() http.Handler {
	mux := http.NewServeMux()
	a.handleProbes(mux)
	return mux
}

func (a adminPort) handleProbes(mux *http.ServeMux) {
	mux.HandleFunc("GET /livez", a.serveLive)
	mux.HandleFunc("GET /healthz", a.serveLive)
	mux.HandleFunc("GET /readyz", a.serveReady)
}
