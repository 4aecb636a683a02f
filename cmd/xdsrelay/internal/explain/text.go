package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// ANSI escape sequences.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	bold   = "\x1b[1m"
	reset  = "\x1b[0m"
)

// page is a text in the making.
type page struct {
	bytes.Buffer

	color bool
}

// paint colors a text, where there are colors.
func (p *page) paint(color, s string) string {
	if !p.color || color == "" {
		return s
	}
	return color + s + reset
}

func (p *page) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

// table writes rows below a head, aligned.
func (p *page) table(head string, rows [][]string) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, strings.Join(strings.Fields(head), "\t"))
	for _, row := range rows {
		_, _ = fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // into memory
	for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		if i == 0 {
			line = p.paint(bold, strings.ReplaceAll(strings.TrimRight(line, " "), "_", " "))
		}
		p.line("%s", strings.TrimRight(line, " "))
	}
}

// Text writes the explanation for people: in full for one type, as a table for several.
func (c *Client) Text(w io.Writer, color bool) error {
	p := &page{color: color}
	p.verify(c)
	if len(c.Types) == 1 {
		p.explain(c, &c.Types[0])
	} else {
		p.overview(c)
	}
	_, err := p.WriteTo(w)
	return err
}

// verify writes what access.verify says of the client's node.
func (p *page) verify(c *Client) {
	if len(c.Verify) == 0 {
		return
	}
	p.line("%s%s", p.paint(bold, "access.verify"), ofListener(c.Listener))
	name, result := 0, 0
	for _, r := range c.Verify {
		name, result = max(name, len(r.Rule)), max(result, len(verified(r.Result)))
	}
	for _, r := range c.Verify {
		p.ruleLine(name, result, r.Rule, verified(r.Result), r.Why)
	}
	if c.UnverifiedBy != "" {
		p.line("%s", p.paint(red, "The relay refuses the client, because "+c.UnverifiedBy+" does not let it present its node."))
		p.line("What follows is for a client that may.")
	}
	p.line("")
}

// ofListener says whose access rules are shown, if a listener has its own.
func ofListener(name string) string { return suffix(" of the listener ", name, "", name != "") }

// verified says what a rule of access.verify came to.
func verified(result string) string {
	switch result {
	case rules.Matches:
		return "is true"
	case rules.DoesNotMatch:
		return "is false"
	}
	return result
}

// ruleLine writes the result of a rule, aligned with those above and below.
func (p *page) ruleLine(name, width int, rule, result, why string) {
	why = strings.ReplaceAll(logs.PrintableLines(why), "\n", "\n"+strings.Repeat(" ", 2+name+2+width+2))
	p.line("%s", strings.TrimRight(fmt.Sprintf("  %-*s  %-*s  %s", name, rule, width, result, why), " "))
}

// overview writes one line for each type, and the reasons below.
func (p *page) overview(c *Client) {
	p.line("node  %s\n", logs.Printable(c.Node))
	rows, byName := make([][]string, 0, len(c.Types)), false
	for i := range c.Types {
		t := &c.Types[i]
		rows = append(rows, []string{t.Type, string(t.Outcome), dash(t.Rule), dash(t.Upstream), dash(logs.Printable(t.Scope))})
		byName = byName || t.ByName
	}
	p.table("TYPE OUTCOME RULE UPSTREAM SCOPE", rows)
	for i := range c.Types {
		if t := &c.Types[i]; t.Reason != "" {
			p.line("\n%s %s: %s", t.Type, p.paint(t.color(), string(t.Outcome)), logs.Printable(t.Reason))
		}
	}
	p.denials(c)
	if byName {
		p.line("\n%s Use --name to explain one name.", byNameCost)
	}
	p.line("\nUse --type to explain one type in detail.")
}

// byNameCost describes the cost of a rule that looks at names.
const byNameCost = `A rule looks at the name. So the relay evaluates the rules for each subscription of
such a type, and not once for each client. Each resulting scope has its own upstream
stream and its own cache.`

func (t *Type) color() string {
	switch t.Outcome {
	case Failed:
		return yellow
	case Refused:
		return red
	default:
		return green
	}
}

// explain writes everything about one type.
func (p *page) explain(c *Client, t *Type) {
	p.field("node", logs.Printable(c.Node))
	p.field("type", t.Type+suffix(" (", t.TypeURL, ")", t.Type != t.TypeURL))
	if t.Name != "" {
		p.field("name", logs.Printable(t.Name))
	}
	p.field("outcome", p.paint(t.color(), string(t.Outcome))+": "+t.meaning())
	p.access(t.Access, t.Name, c.Listener)
	if len(t.Rules) > 0 || t.Policy != "" {
		p.line("\n%s", p.paint(bold, "rules"))
		p.rules(t)
	}
	if t.Upstream != "" {
		p.line("")
		p.place(t)
	}
	if t.ByName {
		p.line("\n%s Up to %s for each name.", byNameCost, plural(t.PerName, "expression"))
	}
	if t.UpstreamNode != nil {
		p.line("\n%s%s", p.paint(bold, "node upstream"), suffix(", ", "if this client is the first of its scope", "", t.First))
		p.yaml(t.UpstreamNode)
	}
}

// field writes a line, or several, below one another.
func (p *page) field(name string, values ...string) {
	for _, v := range values {
		p.line("%-9s %s", name, v)
		name = ""
	}
}

// place writes the client's scope, its parts and its upstream.
func (p *page) place(t *Type) {
	if t.Scope != "" {
		p.field("scope", logs.Printable(t.Scope))
	}
	for _, r := range t.Rules {
		if r.Rule == t.Rule && t.Outcome == Shared {
			p.field("parts", values(r.Scope)...)
			p.field("node", values(r.Node)...)
		}
	}
	p.field("upstream", t.Upstream+suffix(" (", "the default", ")", t.Default))
}

// values shows expressions with their values.
func values(results []rules.FieldResult) []string {
	lines := make([]string, len(results))
	for i, r := range results {
		lines[i] = fmt.Sprintf("%s: %s = %s", r.Field, logs.Printable(r.Expression), logs.Printable(r.Text))
	}
	return lines
}

// meaning explains an outcome.
func (t *Type) meaning() string {
	switch t.Outcome {
	case Shared:
		if t.Rule == rules.Otherwise {
			return "with all clients that no rule matches"
		}
		if len(t.Parts) == 0 {
			return fmt.Sprintf("with all clients that rule %s matches", t.Rule)
		}
		return fmt.Sprintf("with all clients for which rule %s gives the same parts", t.Rule)
	case Isolated:
		return "no rule matches; only clients with an equal node and identity share"
	case Failed:
		return fmt.Sprintf("rule %s fails, so the relay isolates the client: %s", t.Rule, logs.Printable(t.Reason))
	case Refused:
		return logs.Printable(t.Reason)
	case ByName:
		return "a rule looks at the name; use --name to explain one"
	default:
		if t.Resolved {
			return "no rule applies: all clients share this name, and the relay resolves it itself"
		}
		return "no rule applies: all clients share this name; its authority has the upstream"
	}
}

// rules lists the result of each rule, and "otherwise" if no rule decided.
func (p *page) rules(t *Type) {
	name, result := len(rules.Otherwise), 0
	for _, r := range t.Rules {
		name, result = max(name, len(r.Rule)), max(result, len(r.Result))
	}
	if t.Policy != "" {
		result = max(result, len(t.Policy))
	}
	for _, r := range t.Rules {
		p.ruleLine(name, result, r.Rule, r.Result, r.Why)
	}
	if t.Policy != "" {
		p.line("  %-*s  %s", name, rules.Otherwise, t.Policy)
	}
}

// yaml writes a node, indented.
func (p *page) yaml(node json.RawMessage) {
	var tree any
	text := []byte("{}\n")
	if err := json.Unmarshal(node, &tree); err == nil {
		var b bytes.Buffer
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		if err := e.Encode(tree); err == nil {
			text = b.Bytes()
		}
	}
	for line := range strings.Lines(string(text)) {
		p.line("  %s", strings.TrimSuffix(line, "\n"))
	}
}

// listed is the largest number of lines of a list as text. A list as JSON is longer.
const listed = 10

// FleetText writes the result of a survey for people.
func FleetText(w io.Writer, r *sharing.Result, color bool) error {
	p := &page{color: color}
	p.totals(r)
	p.table("TYPE CLIENTS SCOPES BY_NAME FAILED REFUSED", typeRows(r))
	p.line("")
	p.table("RULE CLIENTS SCOPES FAILED REFUSED", ruleRows(r))
	p.scopes(r)
	p.cases("rules that fail (the relay isolates these clients)", r.Failures)
	p.cases("refused", r.Refusals)
	p.fields(r)
	_, err := p.WriteTo(w)
	return err
}

func (p *page) totals(r *sharing.Result) {
	p.line("%s, %d served in %s: %.1f for each stream upstream", plural(r.Clients, "client"), r.Served, plural(r.Scopes, "scope"), r.Ratio)
	p.line("%s with one client, %d isolated, %d whose clients differ in fields that no rule mentions\n",
		plural(r.Alone, "scope"), r.Isolated, r.Unmentioned)
	for _, t := range r.Types {
		if t.ByName > 0 {
			p.line("%s Use --name for one name.\n", byNameCost)
			return
		}
	}
}

func typeRows(r *sharing.Result) [][]string {
	var rows [][]string
	for _, t := range r.Types {
		rows = append(rows, append([]string{t.Type}, numbers(t.Clients, t.Scopes, t.ByName, t.Failed, t.Refused)...))
	}
	return rows
}

func ruleRows(r *sharing.Result) [][]string {
	var rows [][]string
	for _, t := range r.Rules {
		rows = append(rows, append([]string{t.Rule}, numbers(t.Clients, t.Scopes, t.Failed, t.Refused)...))
	}
	return rows
}

func (p *page) scopes(r *sharing.Result) {
	p.list("largest scopes", len(r.Largest), r.Scopes)
	rows := make([][]string, 0, listed)
	for _, s := range r.Largest[:min(listed, len(r.Largest))] {
		rows = append(rows, []string{strconv.Itoa(s.Clients), s.Rule, s.Upstream, logs.Printable(s.Scope), logs.Printable(s.First)})
	}
	if len(rows) > 0 {
		p.table("CLIENTS RULE UPSTREAM SCOPE FIRST_NODE", rows)
	}
	if len(r.Lone) == 0 || r.Scopes <= listed {
		return
	}
	p.list("with one client", len(r.Lone), r.Alone)
	rows = rows[:0]
	for _, s := range r.Lone {
		rows = append(rows, []string{s.Rule, logs.Printable(s.Scope), logs.Printable(s.First)})
	}
	p.table("RULE SCOPE NODE", rows)
}

// list writes the head of a list that may be cut.
func (p *page) list(what string, have, all int) {
	if all == 0 {
		return
	}
	note := ""
	if n := min(listed, have); n < all {
		note = fmt.Sprintf(", %d of %d", n, all)
	}
	p.line("\n%s%s", p.paint(bold, what), note)
}

func (p *page) cases(what string, list []sharing.Case) {
	p.list(what, len(list), len(list))
	for _, c := range list[:min(listed, len(list))] {
		p.line("  %s, for instance %s: %s: %s", plural(c.Clients, "client"), logs.Printable(c.Example), c.Rule, logs.Printable(c.Reason))
	}
}

func (p *page) fields(r *sharing.Result) {
	p.list("fields that differ between clients of a scope, and that no rule mentions", len(r.Fields), len(r.Fields))
	for _, f := range r.Fields[:min(listed, len(r.Fields))] {
		p.line("  %s, in %s of %s", logs.Printable(f.Field), plural(f.Scopes, "scope"), f.Rule)
	}
}

func numbers(all ...int) []string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return texts
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func dash(s string) string { return cmp.Or(s, "-") }

func suffix(before, s, after string, want bool) string {
	if !want {
		return ""
	}
	return before + s + after
}
