package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/xdsrelay/xdsrelay/relay/audit"
)

// MaxCommand bounds the body of a command.
const MaxCommand = 64 << 10

// command is the page of a command. It takes JSON, and answers in JSON. Each one leaves a line in the
// log, whatever becomes of it.
//
// No page of a browser can give a command: it cannot send this content type to another site without
// asking first (CORS), and the admin port lets nobody. What a browser says of itself is looked at too.
func (p *Pages) command(name string, do func(*Command) (*Done, error)) http.Handler {
	carryOut := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || media != "application/json" {
			p.audit(name, req, nil, nil, errors.New("not JSON"))
			Refuse(w, http.StatusUnsupportedMediaType, errors.New("expected Content-Type: application/json"))
			return
		}
		c, err := readCommand(http.MaxBytesReader(w, req.Body, MaxCommand))
		var done *Done
		if err == nil {
			done, err = do(c)
		}
		p.audit(name, req, c, done, err)
		if err != nil {
			code := http.StatusInternalServerError
			if _, ok := errors.AsType[*WrongError](err); ok {
				code = http.StatusBadRequest
			}
			Refuse(w, code, err)
			return
		}
		if done.Scopes == nil {
			done.Scopes = []DoneScope{}
		}
		ok(w, done)
	})
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.audit(name, req, nil, nil, errors.New("from a page of another site"))
		Refuse(w, http.StatusForbidden, errors.New("a page of another site cannot give commands"))
	}))
	return protection.Handler(carryOut)
}

func readCommand(body io.Reader) (*Command, error) {
	c := new(Command)
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, Wrong("the command is no JSON that this relay knows: %v", err)
	}
	return c, nil
}

// refusal is the answer to a command that was not carried out.
type refusal struct {
	Error string `json:"error"`
}

// Refuse says in JSON why a request is not answered.
func Refuse(w http.ResponseWriter, code int, err error) {
	JSON(w, code, refusal{err.Error()})
}

// audit has the log say who gave which command, and what became of it.
func (p *Pages) audit(name string, req *http.Request, c *Command, done *Done, err error) {
	line := []any{"command", name, "from", req.RemoteAddr}
	if operator := p.Operator(req); operator != "" {
		line = append(line, "operator", operator)
	}
	if c != nil {
		line = append(line, "upstream", cmp.Or(c.Upstream, "all"), "scope", ScopeText(c.Scope), "type", cmp.Or(strings.Join(c.Types, ","), "all"))
		for _, x := range c.options() {
			line = append(line, x...)
		}
	}
	p.trail(name, req, c, err)
	if err != nil {
		p.Log.Warn("refused an operator's command", append(line, "error", err)...)
		return
	}
	released, changed, failed := done.Totals()
	line = append(line, "scopes", len(done.Scopes), "released", released, "changed", changed, "failed", failed)
	if done.Streams > 0 {
		line = append(line, "streams", done.Streams)
	}
	if len(done.Warnings) > 0 {
		line = append(line, "warning", strings.Join(done.Warnings, "; "))
	}
	if p.Events != nil && !done.Nothing && name != "reload" { // which is an event already, with what changed
		p.Events.Add(eventOf(name, p.Operator(req), c, done))
	}
	p.Audit.Warn("carried out an operator's command", line...)
}

// trail writes a command into the audit.
func (p *Pages) trail(name string, req *http.Request, c *Command, err error) {
	e := &audit.Event{What: "command", Name: name, Identity: p.Operator(req), Address: req.RemoteAddr, Decision: audit.Allow}
	if c != nil {
		e.Type = strings.Join(c.Types, ",")
		e.Scope = cmp.Or(c.Upstream, "all") + ", " + ScopeText(c.Scope)
	}
	if err != nil {
		e.Decision, e.Reason = audit.Deny, err.Error()
		p.Trail.Note(e)
		return
	}
	p.Trail.Command(e)
}

// options are what a command has beside its selectors.
func (c *Command) options() (all [][]any) {
	if c.For != "" {
		all = append(all, []any{"for", c.For})
	}
	if c.Generation != nil {
		all = append(all, []any{"generation", *c.Generation})
	}
	if !c.At.IsZero() {
		all = append(all, []any{"at", c.At})
	}
	if c.Future {
		all = append(all, []any{"future", true})
	}
	if c.DryRun {
		all = append(all, []any{"dry_run", true})
	}
	if c.Yes {
		all = append(all, []any{"yes", true})
	}
	if c.Guard {
		all = append(all, []any{"only", "guard"})
	}
	return all
}

// ScopeText shows the scope that a selector names.
func ScopeText(scope *string) string {
	switch {
	case scope == nil:
		return "all"
	case *scope == "":
		return "xdstp names"
	}
	return *scope
}
