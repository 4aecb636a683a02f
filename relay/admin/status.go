package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Status is what an operator needs to know first: what is wrong, and how many clients have what they should.
type Status struct {
	About     *About           `json:"about"`
	Well      bool             `json:"well"` // nothing is wrong
	Problems  []Problem        `json:"problems"`
	Clients   int              `json:"clients"`
	States    map[string]int   `json:"states"` // clients by the worst state that they are in with any type
	Upstreams []UpstreamStatus `json:"upstreams"`
}

// UpstreamStatus is one control plane, in short.
type UpstreamStatus struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`
	Since   time.Time `json:"since,omitzero"`
	Silent  time.Time `json:"silent_since,omitzero"` // when the oldest request was written since which it has said nothing
	Scopes  int       `json:"scopes"`
	Answers Answers   `json:"answers,omitzero"`
}

// Problem is one thing that is wrong.
type Problem struct {
	Kind     Kind      `json:"kind"`
	Text     string    `json:"text"` // a sentence, which does not change while the problem is the same
	Since    time.Time `json:"since,omitzero"`
	Upstream string    `json:"upstream,omitempty"`
	TypeURL  string    `json:"type_url,omitempty"`
	Resource string    `json:"resource,omitempty"`
	Nodes    []string  `json:"nodes,omitempty"`   // the first of the clients that have it
	Clients  int       `json:"clients,omitempty"` // how many have it
	Next     string    `json:"next,omitempty"`    // the command that tells more, or does something
}

// Kind is the kind of a Problem.
type Kind string

// The kinds, the worst first.
const (
	NotReady      Kind = "not ready"
	UpstreamAway  Kind = "upstream away"
	UpstreamSlow  Kind = "upstream slow"
	NoClients     Kind = "no clients" // there were some
	Emptied       Kind = "emptied"    // a control plane removed much at once, and clients are not told
	FilesBroken   Kind = "files"      // of an upstream cannot be used: clients have what these had before
	RuleFails     Kind = "rule fails"
	RejectsIt     Kind = "rejected"
	Unacked       Kind = "not acknowledged"
	Unsent        Kind = "not sent"
	NameUnknown   Kind = "name not answered"
	NameMissing   Kind = "name missing"
	Certificates  Kind = "certificate"
	ReloadFailed  Kind = "reload failed"
	WaitsForStart Kind = "waits for restart"
	HeldByHand    Kind = "held"           // an operator holds what clients get
	PassedThrough Kind = "passed through" // streams are served 1:1
)

var kinds = []Kind{
	NotReady, UpstreamAway, UpstreamSlow, NoClients, Emptied, FilesBroken, RuleFails, RejectsIt, Unacked, Unsent, NameUnknown, NameMissing, Certificates, ReloadFailed, WaitsForStart, HeldByHand, PassedThrough,
}

const (
	// patience is how long something may take before it is a problem: acknowledgements, names, answers.
	patience = 3 * time.Second
	// slowly is how long half of the answers take of a control plane that is slow.
	slowly = 2 * time.Second
	// comeBack is how long the last client may be gone before it is missed.
	comeBack = time.Minute
	// shownNodes is how many clients a problem names.
	shownNodes = 3
)

func (p *Pages) status(w http.ResponseWriter, _ query) error {
	ok(w, NewStatus(p.State, time.Now()))
	return nil
}

// NewStatus judges what a relay has.
func NewStatus(of State, now time.Time) *Status {
	v := &Status{About: of.About(), States: make(map[string]int), Problems: []Problem{}, Upstreams: []UpstreamStatus{}}
	for _, s := range downstream.States {
		v.States[string(s)] = 0
	}
	f := &findings{now: now, away: make(map[string]bool), of: make(map[string]*Problem)}
	f.about(v.About)
	for _, u := range of.Upstreams() {
		if u.Retired {
			continue
		}
		v.Upstreams = append(v.Upstreams, UpstreamStatus{u.Name, u.State, u.StateSince, u.silentSince(), len(u.Sessions), u.Answers})
		f.upstream(&u)
	}
	if held, err := of.Held(&Command{}); err == nil {
		f.held(held)
	}
	if passed, err := of.Passed(&Command{}); err == nil {
		f.passed(passed)
	}
	for _, c := range of.Scopes(ScopeFilter{}).Failures {
		f.add(Problem{
			Kind: RuleFails, Text: fmt.Sprintf("The aggregation rule %s fails for clients: %s.", c.Rule, strings.TrimSuffix(c.Reason, ".")),
			Clients: c.Clients, Nodes: []string{c.Example}, Next: "xdsrelay nodes | " + strings.TrimSpace("xdsrelay explain --nodes - --config "+v.About.File),
		})
	}
	clients := of.Clients(nil, nil)
	v.Clients = len(clients)
	for i := range clients {
		v.States[f.stateOf(&clients[i])]++
	}
	if gone := v.About.LastGone; v.Clients == 0 && !gone.IsZero() && now.Sub(gone) >= comeBack {
		f.add(Problem{Kind: NoClients, Text: "No client is connected: all that were there are gone.", Since: gone, Next: "xdsrelay clients --gone"})
	}
	v.Problems = append(v.Problems, f.sorted()...)
	v.Well = len(v.Problems) == 0
	return v
}

// findings collects problems. Clients with the same problem share it.
type findings struct {
	now  time.Time
	away map[string]bool // upstreams
	of   map[string]*Problem
}

// add adds a problem, with the client that has it.
func (f *findings) add(p Problem, nodes ...string) {
	key := strings.Join([]string{string(p.Kind), p.Text, p.Resource}, "\x00")
	known := f.of[key]
	if known == nil {
		known = &p
		f.of[key] = known
	} else if !p.Since.IsZero() && p.Since.Before(known.Since) {
		known.Since = p.Since
	}
	known.Clients += len(nodes)
	for _, n := range nodes {
		if len(known.Nodes) < shownNodes && !slices.Contains(known.Nodes, n) {
			known.Nodes = append(known.Nodes, n)
		}
	}
}

// sorted lists the problems, the worst first.
func (f *findings) sorted() (all []Problem) {
	for _, p := range f.of {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Problem) int { return Compare(&a, &b) })
	return all
}

// Compare sorts problems: the worst first.
func Compare(a, b *Problem) int {
	return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), cmp.Compare(b.Clients, a.Clients), strings.Compare(a.Text, b.Text))
}

func (f *findings) about(a *About) {
	if !a.Ready {
		f.add(Problem{Kind: NotReady, Text: "The relay is not ready for new clients: " + a.Reason, Next: "xdsrelay upstreams"})
	}
	if a.Failed != "" {
		next := strings.TrimSpace("xdsrelay validate " + a.File)
		if a.Refuses {
			next = "xdsrelay reload --dry-run"
		}
		f.add(Problem{
			Kind: ReloadFailed, Since: a.FailedAt, Next: next,
			Text: "The relay did not take the configuration that it read last: " + strings.TrimSpace(a.Failed),
		})
	}
	if len(a.Waiting) > 0 {
		f.add(Problem{Kind: WaitsForStart, Text: "These keys have other values in the file and need a restart: " + strings.Join(a.Waiting, "; ")})
	}
	for i := range a.Certificates {
		c := &a.Certificates[i]
		p := Problem{Kind: Certificates, Resource: c.Key, Next: "renew " + c.File}
		switch {
		case c.Error != "":
			p.Text = fmt.Sprintf("The certificate of %s cannot be read: %s", c.Key, c.Error)
		case !f.now.Before(c.Expires):
			p.Text = fmt.Sprintf("The certificate of %s expired at %s.", c.Key, c.Expires.UTC().Format(time.RFC3339))
		case c.near(f.now):
			p.Text = fmt.Sprintf("The certificate of %s expires at %s.", c.Key, c.Expires.UTC().Format(time.RFC3339))
		default:
			continue
		}
		f.add(p)
	}
}

// The states of an upstream in which it gives nothing new.
var awayStates = []string{"mute", "unreachable", "not reached", "restored", "at peers"}

func (f *findings) upstream(u *Upstream) {
	if n := len(u.Unusable); n > 0 {
		f.add(Problem{
			Kind: FilesBroken, Upstream: u.Name, Next: "xdsrelay upstreams " + u.Name,
			Text: fmt.Sprintf("Files of %[2]s that cannot be used: %[1]d. Clients keep what these had before. %[3]s", n, u.Name, u.Unusable[0]),
		})
	}
	p := Problem{Kind: UpstreamAway, Upstream: u.Name, Since: u.StateSince, Next: "xdsrelay upstreams " + u.Name}
	silent := u.silentSince()
	switch {
	case u.State == "mute" && silent.IsZero():
		return
	case u.State == "mute":
		p.Text = fmt.Sprintf("The control plane %s can be reached and does not answer. Clients keep what they have.", u.Name)
	case slices.Contains(awayStates, u.State):
		p.Text = fmt.Sprintf("The control plane %s cannot be reached. Clients keep what they have.", u.Name)
		if u.Cause != "" {
			p.Text += " " + u.Cause
		}
	case !silent.IsZero() && f.now.Sub(silent) >= slowly:
		p.Kind, p.Since = UpstreamSlow, silent
		p.Text = fmt.Sprintf("The control plane %s can be reached, and has said nothing since it was asked something.", u.Name)
	case u.Answers.Count > 0 && u.Answers.P50 >= slowly.Seconds():
		p.Kind = UpstreamSlow
		p.Text = fmt.Sprintf("The control plane %s answers slowly: half of its answers within ten minutes took %.1f s or more.", u.Name, u.Answers.P50)
	default:
		return
	}
	f.away[u.Name] = p.Kind == UpstreamAway
	f.add(p)
}

func (f *findings) held(page *HeldPage) {
	for _, o := range page.Orders {
		if !o.Held {
			continue
		}
		what, next := "everything", "xdsrelay held"
		if o.TypeURL != "" {
			what = "type " + short(o.TypeURL)
			next += " --type " + short(o.TypeURL)
		}
		if o.Upstream != "" {
			what += " of " + o.Upstream
			next += " --upstream " + word(o.Upstream)
		}
		if o.Scope != nil {
			what += fmt.Sprintf(" in scope %q", *o.Scope)
		}
		f.add(Problem{Kind: HeldByHand, Upstream: o.Upstream, TypeURL: o.TypeURL, Since: o.Since, Next: next, Text: "An operator holds what clients get: " + what + "."})
	}
	for i := range page.Held {
		h := &page.Held[i]
		if h.Why != "guard" {
			continue // the operator knows
		}
		f.add(Problem{
			Kind: Emptied, Upstream: h.Upstream, TypeURL: h.TypeURL, Since: h.Since,
			Text: fmt.Sprintf("The control plane %s removed %d resources of type %s at once. Clients keep them until %s.",
				h.Upstream, h.Removed, short(h.TypeURL), h.Until.UTC().Format(time.RFC3339)),
			Next: fmt.Sprintf("xdsrelay held --upstream %s --type %s", h.Upstream, short(h.TypeURL)),
		})
	}
}

func short(typeURL string) string { return keyer.ShortName(typeURL) }

// client adds what is wrong with a client, and returns the worst state that it is in.
func (f *findings) client(c *downstream.Status) downstream.ClientState {
	worst := downstream.Current
	for url, t := range c.Types {
		if slices.Index(badness, t.State) > slices.Index(badness, worst) {
			worst = t.State
		}
		f.typeOf(c, url, &t)
	}
	return worst
}

// badness has the states, the worst last.
var badness = []downstream.ClientState{downstream.Current, downstream.Waiting, downstream.Behind, downstream.Rejecting}

func (f *findings) typeOf(c *downstream.Status, url string, t *downstream.TypeView) {
	node := cmp.Or(c.Node, c.Peer)
	p := Problem{TypeURL: url, Since: t.BehindSince, Next: command("clients", node)}
	if len(t.From) > 0 {
		p.Upstream = t.From[0].Upstream
	}
	late := !t.BehindSince.IsZero() && f.now.Sub(t.BehindSince) >= patience && f.now.Sub(c.Since) >= patience
	switch {
	case t.State == downstream.Rejecting:
		f.rejects(c, url, t, p)
	case late && t.WaitsFor == delivery.WaitsForACK:
		p.Kind, p.Text = Unacked, fmt.Sprintf("Clients do not acknowledge type %s%s.", short(url), versions(t))
		f.add(p, node)
	case late && t.WaitsFor == delivery.WaitsForTurn:
		p.Kind, p.Text = Unsent, fmt.Sprintf("Clients are not sent changes of type %s: they wait for other types.", short(url))
		f.add(p, node)
	}
	if f.away[p.Upstream] || f.now.Sub(c.Since) < patience {
		return
	}
	p.Since = c.Since
	for _, name := range t.Unanswered {
		p.Kind, p.Resource = NameUnknown, name
		p.Text = fmt.Sprintf("Clients ask for %s %q, and the control plane %s has not answered.", short(url), name, p.Upstream)
		p.Next = why(node, url, name)
		f.add(p, node)
	}
	for _, name := range t.Missing {
		p.Kind, p.Resource = NameMissing, name
		p.Text = fmt.Sprintf("Clients ask for %s %q, which does not exist: the control plane %s says so.", short(url), name, p.Upstream)
		p.Next = why(node, url, name)
		f.add(p, node)
	}
}

func why(node, url, name string) string {
	return command("why", node, short(url), name)
}

// command is a command line. What begins with a dash is no flag of it.
func command(name string, args ...string) string {
	words := []string{"xdsrelay", name}
	if slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "-") }) {
		words = append(words, "--")
	}
	for _, s := range args {
		words = append(words, word(s))
	}
	return strings.Join(words, " ")
}

// word is a word of a command line: a shell takes "*" and the like for something else, and a terminal control characters.
func word(s string) string {
	control := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	switch {
	case strings.ContainsFunc(s, control):
		var b strings.Builder
		for i, r := range s {
			_, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case control(r):
				for _, c := range []byte(s[i : i+size]) {
					fmt.Fprintf(&b, `\x%02x`, c)
				}
			case r == '\'', r == '\\':
				b.WriteByte('\\')
				fallthrough
			default:
				b.WriteRune(r)
			}
		}
		return "$'" + b.String() + "'"
	case s != "" && !strings.ContainsAny(s, " *?[]{}()<>|&;$`\"'\\#!") && s[0] != '~':
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// versions says which versions a client has and was sent.
func versions(t *downstream.TypeView) string {
	switch {
	case t.Sent == "" || t.Sent == t.Held:
		return ""
	case t.Held == "":
		return fmt.Sprintf(" version %s, and have none before", keyer.Shorten(t.Sent))
	}
	return fmt.Sprintf(" version %s, and still have version %s", keyer.Shorten(t.Sent), keyer.Shorten(t.Held))
}

func (f *findings) rejects(c *downstream.Status, url string, t *downstream.TypeView, p Problem) {
	reason := ""
	if t.LastNack != nil {
		p.Since, reason = t.LastNack.At, ": "+t.LastNack.Message
	}
	p.Kind, p.Next = RejectsIt, "xdsrelay rejections --type "+short(url)
	for _, r := range t.Rejects {
		if r.Alone {
			p.Resource = r.Name
			p.Text = fmt.Sprintf("Clients reject %s %q version %s%s", short(url), r.Name, keyer.Shorten(r.Version), reason)
			f.add(p, cmp.Or(c.Node, c.Peer))
		}
	}
	if p.Resource == "" {
		names := make([]string, len(t.Rejects))
		for i, r := range t.Rejects {
			names[i] = r.Name
		}
		which := ""
		if len(names) > 0 {
			which = fmt.Sprintf(" (one or more of %s)", strings.Join(names, ", "))
		}
		p.Text = fmt.Sprintf("Clients reject a response of type %s%s%s", short(url), which, reason)
		f.add(p, cmp.Or(c.Node, c.Peer))
	}
}
