package relay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// maxCommand bounds the body of a command.
const maxCommand = 64 << 10

// serveHeld shows what is held.
func (a adminPort) serveHeld(w http.ResponseWriter, req *http.Request) {
	o := a.operator()
	selectors, err := o.selectors(queryCommand(req))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	indented(w, o.heldPage(selectors, time.Now()))
}

// queryCommand is what the query of a page selects.
func queryCommand(req *http.Request) *Command {
	q := req.URL.Query()
	c := &Command{Upstream: q.Get("upstream"), Types: q["type"]}
	if q.Has("scope") {
		c.Scope = new(q.Get("scope"))
	}
	return c
}

// command is the page of a command. It takes JSON, and answers in JSON. Each one leaves a line in the
// log, whatever becomes of it.
//
// No page of a browser can give a command: it cannot send this content type to another site without
// asking first (CORS), and the admin port lets nobody. What a browser says of itself is looked at too.
func (a adminPort) command(name string, do func(*Command) (*Done, error)) http.Handler {
	carryOut := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || media != "application/json" {
			a.audit(name, req, nil, nil, errors.New("not JSON"))
			refuse(w, http.StatusUnsupportedMediaType, errors.New("expected Content-Type: application/json"))
			return
		}
		c, err := readCommand(http.MaxBytesReader(w, req.Body, maxCommand))
		var done *Done
		if err == nil {
			done, err = do(c)
		}
		a.audit(name, req, c, done, err)
		if err != nil {
			code := http.StatusInternalServerError
			if _, ok := errors.AsType[*commandError](err); ok {
				code = http.StatusBadRequest
			}
			refuse(w, code, err)
			return
		}
		if done.Scopes == nil {
			done.Scopes = []DoneScope{}
		}
		indented(w, done)
	})
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		a.audit(name, req, nil, nil, errors.New("from a page of another site"))
		refuse(w, http.StatusForbidden, errors.New("a page of another site cannot give commands"))
	}))
	return protection.Handler(carryOut)
}

func readCommand(body io.Reader) (*Command, error) {
	c := new(Command)
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, wrong("the command is no JSON that this relay knows: %v", err)
	}
	return c, nil
}

// refusal is the answer to a command that was not carried out.
type refusal struct {
	Error string `json:"error"`
}

func refuse(w http.ResponseWriter, code int, err error) {
	indentedAs(w, code, refusal{err.Error()})
}

// audit has the log say who gave which command, and what became of it.
func (a adminPort) audit(name string, req *http.Request, c *Command, done *Done, err error) {
	line := []any{"command", name, "from", req.RemoteAddr}
	if operator := operatorOf(req); operator != "" {
		line = append(line, "operator", operator)
	}
	if c != nil {
		line = append(line, "upstream", cmp.Or(c.Upstream, "all"), "scope", scopeText(c.Scope), "type", cmp.Or(strings.Join(c.Types, ","), "all"))
		for _, x := range c.options() {
			line = append(line, x...)
		}
	}
	if err != nil {
		a.relay.log.Warn("refused an operator's command", append(line, "error", err)...)
		return
	}
	released, changed, failed := done.Totals()
	line = append(line, "scopes", len(done.Scopes), "released", released, "changed", changed, "failed", failed)
	if len(done.Warnings) > 0 {
		line = append(line, "warning", strings.Join(done.Warnings, "; "))
	}
	a.relay.audit.Warn("carried out an operator's command", line...)
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
	if c.Guard {
		all = append(all, []any{"only", "guard"})
	}
	return all
}

// heldText is a line for each order on /readyz.
func heldText(o *OrderView) string {
	until := "until it is released"
	if !o.Until.IsZero() {
		until = "until " + o.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("held by an operator since %s: upstream %s, scope %s, type %s, %s",
		o.Since.UTC().Format(time.RFC3339), cmp.Or(o.Upstream, "all"), scopeText(o.Scope), cmp.Or(o.TypeURL, "all"), until)
}
