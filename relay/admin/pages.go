package admin

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"

	"github.com/xdsrelay/xdsrelay/relay/audit"
)

// Index is a line for each page, for the front page of the port.
const Index = `/status                    what is wrong, and how many clients have what they should
/ui/                       a page for browsers, which lead / there; /events has the status, and each change of it
/clients?node=&state=&type=&search= the clients' streams and polls: what they have of each type, and what they wait for; names=true, gone=true
/rejections?node=&type=    what clients reject now, by resource and reason
/why?node=&type=&name=     why a client has a resource, or why not
/changes?since=10m&type=&name= what changed, and how many clients have it; diff=true shows payloads
/reach?type=&name=         how many clients have which version of a resource
/nodes                     the nodes of the clients that are there, with the names of their certificates, in JSON Lines
/upstreams                 the control planes: sessions, streams, cached resources by type
/scopes?type=&rule=&scope= the clients that share by the aggregation rules, and the differences between their nodes
/resources?type=&name=&search= the cached resources; payload=true shows payloads, except those of secrets
/held?upstream=&scope=&type= what clients are not told yet, why, and the difference; POST /hold and /release change it
/generations               what clients of each scope had before; POST /rollback goes back to it
POST /reload               the relay reads its configuration again; with dry_run it says what that would do, and to which clients
/passthrough?upstream=&scope=&type= which streams are served 1:1; POST /passthrough/on and /passthrough/off change it
/check                     a consistency check of the whole cache; it locks a store during the check
gRPC                       envoy.service.status.v3.ClientStatusDiscoveryService, as grpcdebug asks it
`

// Pages answers requests by what a relay has and does.
type Pages struct {
	State    State
	Commands Commands
	Log      *slog.Logger                   // of commands that were refused
	Audit    *slog.Logger                   // of those that were carried out
	Trail    *audit.Log                     // of both; nil: there is no audit
	Events   *Events                        // which remember these too; nil: nothing does
	Operator func(req *http.Request) string // whose request it is; "" if nobody knows
	Contain  func(func() error) error       // calls a function, and gives a panic in it as an error; nil: it does not
}

// Handle adds the pages to a mux.
func (p *Pages) Handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /status", page(p.status))
	mux.HandleFunc("GET /clients", page(p.clients, "node", "state", "type", "search", "names", "gone", "limit", "after"))
	mux.HandleFunc("GET /rejections", page(p.rejections, "node", "type"))
	mux.HandleFunc("GET /why", page(p.why, "node", "type", "name"))
	mux.HandleFunc("GET /changes", page(p.changes, "since", "type", "name", "diff"))
	mux.HandleFunc("GET /reach", page(p.reach, "type", "name"))
	mux.HandleFunc("GET /nodes", page(p.nodes))
	mux.HandleFunc("GET /upstreams", page(p.upstreams))
	mux.HandleFunc("GET /scopes", page(p.scopes, "type", "rule", "scope"))
	mux.HandleFunc("GET /resources", page(p.resources, "upstream", "scope", "type", "name", "state", "search", "payload", "limit", "after"))
	mux.HandleFunc("GET /held", page(p.held, selectors...))
	mux.HandleFunc("GET /generations", page(p.generations, selectors...))
	mux.HandleFunc("GET /passthrough", page(p.passthrough, selectors...))
	mux.HandleFunc("GET /check", page(p.check))
	p.handleStatus(mux)
	p.handleUI(mux)
	mux.Handle("POST /hold", p.command("hold", p.Commands.Hold))
	mux.Handle("POST /release", p.command("release", p.Commands.Release))
	mux.Handle("POST /rollback", p.command("rollback", p.Commands.Rollback))
	mux.Handle("POST /reload", p.command("reload", p.Commands.Reload))
	mux.Handle("POST /passthrough/on", p.command("passthrough on", p.Commands.Passthrough))
	mux.Handle("POST /passthrough/off", p.command("passthrough off", p.Commands.EndPassthrough))
}

// Text answers in plain text.
func Text(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body)) // the client is gone if this fails
}

// JSON answers in JSON.
func JSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) //nolint:errchkjson // views of plain fields; the client is gone if this fails
}

func ok(w http.ResponseWriter, v any) { JSON(w, http.StatusOK, v) }

func (p *Pages) upstreams(w http.ResponseWriter, _ query) error {
	ok(w, p.State.Upstreams())
	return nil
}

// nodes writes a line for each node.
func (p *Pages) nodes(w http.ResponseWriter, _ query) error {
	w.Header().Set("Content-Type", "application/jsonl")
	out := bufio.NewWriter(w)
	e := json.NewEncoder(out)
	for n := range p.State.Nodes() {
		if err := e.Encode(n); err != nil {
			return nil // the client is gone
		}
	}
	_ = out.Flush()
	return nil
}

func (p *Pages) scopes(w http.ResponseWriter, q query) error {
	ok(w, p.State.Scopes(ScopeFilter{TypeURL: q.typeURL(), Rule: q.Get("rule"), Scope: q.Get("scope")}))
	return nil
}

// held shows what is held.
func (p *Pages) held(w http.ResponseWriter, q query) error {
	v, err := p.State.Held(q.command())
	if err == nil {
		ok(w, v)
	}
	return err
}

// generations lists the states that the scopes can be rolled back to.
func (p *Pages) generations(w http.ResponseWriter, q query) error {
	v, err := p.State.Generations(q.command())
	if err == nil {
		ok(w, v)
	}
	return err
}

func (p *Pages) check(w http.ResponseWriter, _ query) error {
	if err := p.State.Check(); err != nil {
		Text(w, http.StatusInternalServerError, strings.TrimSpace(err.Error())+"\n")
		return nil
	}
	Text(w, http.StatusOK, "consistent\n")
	return nil
}
