package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// The orders of clients.
const (
	byNode  = "node"
	bySince = "since"
	byLag   = "lag"
)

func clientsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clients [NODE]",
		Short: "Show the clients, what they have of each type, and what they wait for",
		Long: `Show a line for each type of each client: its state, the version that it holds and the one
that it was sent last, for how long it lacks something, and what it waits for:

  ack       the client has not acknowledged the last response
  upstream  the control plane is away, and something is not known
  name      the control plane has not answered a name
  settle    more may come, and a list without it would take something away
  turn      it goes out behind other types
  withheld  the guard or an operator holds something

A client that is served 1:1 ("xdsrelay passthrough") has the state passed: the relay does not
know what it has.

With NODE only that client, and each name: how the client subscribes to it, its status in the
words of the client status discovery service, and the versions.

` + exitCodes("a relay refused or failed, or there is no such client"),
		Example: `  xdsrelay clients --stale
  xdsrelay clients --sort lag --type cds
  xdsrelay clients router~10.0.0.7
  xdsrelay clients --gone`,
		Args:              arguments(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := newAskFlags(cmd)
	var stale, gone bool
	var typeName string
	flags := cmd.Flags()
	flags.BoolVar(&stale, "stale", false, "only those that lack, reject or wait for something")
	flags.BoolVar(&gone, "gone", false, "those that went within an hour, and why")
	flags.StringVarP(&typeName, "type", "t", "", "only this resource `type`")
	cli.Complete(cmd, "type", typeCompletions()...)
	order := cli.ChoiceFlag(cmd, "sort", "`order`: node, since or lag", byNode, bySince, byLag)
	cmd.MarkFlagsMutuallyExclusive("stale", "gone")
	cmd.MarkFlagsMutuallyExclusive("type", "gone")
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		if err := typed(typeName); err != nil {
			return err
		}
		q := url.Values{}
		if len(args) > 0 {
			q.Set("node", args[0])
		}
		if gone {
			q.Set("gone", "true")
			return show(o, "/clients?"+q.Encode(), func(w io.Writer, answers []adminclient.Answer[[]downstream.Gone]) error {
				o.gone(w, answers, time.Now())
				return nil
			})
		}
		if len(args) > 0 {
			q.Set("names", "true")
		}
		if stale {
			q.Set("state", "stale")
		}
		if typeName != "" {
			q.Set("type", typeName)
		}
		return show(o, "/clients?"+q.Encode(), func(w io.Writer, answers []adminclient.Answer[[]downstream.Status]) error {
			n := o.clients(w, answers, *order, time.Now())
			if n == 0 && len(args) > 0 && len(failures(answers)) == 0 {
				return &cli.Error{Code: cli.ExitFailure, Err: fmt.Errorf("no client has the node %q", args[0]), Hint: "xdsrelay clients --gone shows those that went"}
			}
			return nil
		})
	})
	return cmd
}

// connected is one client of one of the relays.
type connected struct {
	downstream.Status

	relay string
}

// lag is since when the client lacks something.
func (c *connected) lag() (first time.Time) {
	for _, t := range c.Types {
		if s := t.BehindSince; !s.IsZero() && (first.IsZero() || s.Before(first)) {
			first = s
		}
	}
	return first
}

// clients shows the clients, and returns how many there are.
func (o *askFlags) clients(w io.Writer, answers []adminclient.Answer[[]downstream.Status], order string, now time.Time) int {
	var all []connected
	for i := range answers {
		for _, c := range answers[i].Value {
			all = append(all, connected{c, answers[i].Address})
		}
	}
	slices.SortStableFunc(all, func(a, b connected) int {
		switch order {
		case bySince:
			return a.Since.Compare(b.Since)
		case byLag:
			x, y := a.lag(), b.lag()
			if x.IsZero() != y.IsZero() {
				return cmp.Compare(b2i(x.IsZero()), b2i(y.IsZero()))
			}
			return x.Compare(y)
		}
		return strings.Compare(a.Node, b.Node)
	})
	rows := [][]string{{"NODE", "TYPE", "STATE", "HELD", "SENT", "WAITS FOR", "BEHIND", "SCOPE"}}
	if o.wide() {
		rows[0] = append(rows[0], "UPSTREAM", "RULE", "NAMES", "PEER", "IDENTITY", "FORM", "SINCE")
	}
	rows[0] = append(rows[0], "RELAY")
	for i := range all {
		c := &all[i]
		if c.Passed != nil {
			rows = append(rows, o.clientRow(c, "", now))
		}
		for _, typeURL := range slices.Sorted(maps.Keys(c.Types)) {
			rows = append(rows, o.clientRow(c, typeURL, now))
		}
	}
	if len(all) == 0 && len(failures(answers)) == 0 {
		_, _ = fmt.Fprintln(w, "There is no such client.")
		return 0
	}
	atRelays(w, answers, rows)
	for i := range all {
		o.names(w, &all[i], now)
	}
	return len(all)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (o *askFlags) clientRow(c *connected, typeURL string, now time.Time) []string {
	t := c.Types[typeURL]
	var from downstream.Origin
	if len(t.From) > 0 {
		from = t.From[0]
	}
	waits := string(t.WaitsFor)
	if len(t.Unanswered) > 0 {
		waits += " " + strings.Join(t.Unanswered[:min(2, len(t.Unanswered))], ",")
	}
	if c.Passed != nil { // the relay knows nothing of its types
		from, t.State = *c.Passed, "passed"
	}
	row := []string{
		o.cut(cmp.Or(c.Node, c.Peer), 40), dash(short(typeURL)), string(t.State), o.cut(dash(t.Held), 20), o.cut(dash(t.Sent), 20),
		dash(o.cut(waits, 30)), elapsed(t.BehindSince, now), o.cut(dash(from.Scope), 30),
	}
	if o.wide() {
		row = append(row, dash(from.Upstream), dash(from.Rule), strconv.Itoa(t.Subscriptions), c.Peer,
			dash(cmp.Or(c.SPIFFE, c.Subject)), c.Variant, elapsed(c.Since, now))
	}
	return append(row, c.relay)
}

// names lists the names of a client, if the relay did.
func (o *askFlags) names(w io.Writer, c *connected, now time.Time) {
	for _, typeURL := range slices.Sorted(maps.Keys(c.Types)) {
		t := c.Types[typeURL]
		if len(t.Names) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(w, "\n%s of %s at %s:\n", short(typeURL), logs.Printable(cmp.Or(c.Node, c.Peer)), c.relay)
		rows := [][]string{{"NAME", "BY", "STATUS", "HELD", "SENT", "CACHED", "CHANGED"}}
		for _, d := range t.Names {
			rows = append(rows, []string{
				o.cut(d.Name, 50), o.cut(d.By, 20), d.Status, o.cut(dash(d.Held), 20), o.cut(dash(d.Sent), 20), o.cut(dash(d.Cached), 20), elapsed(d.Changed, now),
			})
		}
		columns(w, rows)
	}
}

// gone shows the clients that went.
func (o *askFlags) gone(w io.Writer, answers []adminclient.Answer[[]downstream.Gone], now time.Time) {
	rows := [][]string{{"NODE", "PEER", "GONE", "STAYED", "WHY", "CODE", "REASON", "RELAY"}}
	for i := range answers {
		for _, g := range answers[i].Value {
			rows = append(rows, []string{
				o.cut(dash(g.Node), 40), g.Peer, elapsed(g.At, now), elapsed(g.Since, g.At), string(g.Why), g.Code, o.cut(dash(g.Reason), 60), answers[i].Address,
			})
		}
	}
	if len(rows) == 1 && len(failures(answers)) == 0 {
		_, _ = fmt.Fprintln(w, "No client went within an hour.")
		return
	}
	atRelays(w, answers, rows)
}

func rejectionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rejections [NODE]",
		Short: "Show what clients reject now, and why",
		Long: `Show what clients reject now, by resource, version and reason, with the number of clients.
Where a resource stood alone in the response it is the one that is rejected. Otherwise it is
a candidate, marked with "?". What was repaired is not shown.

` + exitCodes("clients reject something"),
		Example: `  xdsrelay rejections
  xdsrelay rejections --type cds --output wide`,
		Args:              arguments(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := newAskFlags(cmd)
	var typeName string
	cmd.Flags().StringVarP(&typeName, "type", "t", "", "only this resource `type`")
	cli.Complete(cmd, "type", typeCompletions()...)
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		if err := typed(typeName); err != nil {
			return err
		}
		q := url.Values{}
		if len(args) > 0 {
			q.Set("node", args[0])
		}
		if typeName != "" {
			q.Set("type", typeName)
		}
		return show(o, "/rejections?"+q.Encode(), func(w io.Writer, answers []adminclient.Answer[[]admin.Rejection]) error {
			return somethingWrong(o.rejections(w, answers, time.Now()))
		})
	})
	return cmd
}

// rejections shows what clients reject, and returns how much.
func (o *askFlags) rejections(w io.Writer, answers []adminclient.Answer[[]admin.Rejection], now time.Time) (n int) {
	rows := [][]string{{"TYPE", "RESOURCE", "VERSION", "CLIENTS", "FOR", "NODES", "REASON", "RELAY"}}
	for i := range answers {
		for _, r := range answers[i].Value {
			n++
			name := o.cut(dash(r.Resource), 50)
			if !r.Alone {
				name += "?"
			}
			rows = append(rows, []string{
				short(r.TypeURL), name, o.cut(dash(r.Version), 20), strconv.Itoa(r.Clients), elapsed(r.Since, now),
				o.cut(nodes(r.Nodes[:min(3, len(r.Nodes))], r.Clients), 60), o.ends(r.Reason, 30, 90), answers[i].Address,
			})
		}
	}
	if n == 0 {
		_, _ = fmt.Fprintln(w, "No client rejects anything.")
		return 0
	}
	atRelays(w, answers, rows)
	return n
}

func whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why NODE TYPE NAME",
		Short: "Say why a client has a resource, or why it does not",
		Long: `Say why a client has a resource, or why it does not: how the client asks for it, which rule,
scope and upstream it comes from, which version there is, since when, and what keeps the
client from it.

` + exitCodes("no relay has the client"),
		Example: `  xdsrelay why router~10.0.0.7 cds payments
  xdsrelay why gateway-1 rds nobody --output json`,
		Args: arguments(3, 3),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return typeCompletions(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	o := newAskFlags(cmd)
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		if err := typed(args[1]); err != nil {
			return err
		}
		q := url.Values{"node": args[:1], "type": args[1:2], "name": args[2:]}
		return show(o, "/why?"+q.Encode(), func(w io.Writer, answers []adminclient.Answer[[]admin.Why]) error {
			if o.why(w, answers, time.Now()) == 0 && len(failures(answers)) == 0 {
				return &cli.Error{
					Code: cli.ExitFailure, Err: fmt.Errorf("no client with the node %q asks for the type %s", args[0], args[1]),
					Hint: "xdsrelay clients shows what clients ask for",
				}
			}
			return nil
		})
	})
	return cmd
}

func (o *askFlags) why(w io.Writer, answers []adminclient.Answer[[]admin.Why], now time.Time) (n int) {
	for i := range answers {
		for _, v := range answers[i].Value {
			n++
			_, _ = fmt.Fprintf(w, "%s, stream %d of %s:\n  %s\n", answers[i].Address, v.Client, logs.Printable(v.Peer), o.ends(v.Sentence, 300, 300))
			for _, f := range v.From {
				_, _ = fmt.Fprintf(w, "  from upstream %s, scope %s, rule %s\n", logs.Printable(f.Upstream), scopeText(f.Scope), dash(logs.Printable(f.Rule)))
			}
			for _, c := range v.Cached {
				_, _ = fmt.Fprintf(w, "  the relay has it: %s, version %s, %d bytes, changed %s ago", logs.Printable(c.State), dash(logs.Printable(c.Version)), c.Bytes, elapsed(c.Updated, now))
				if c.Error != "" {
					_, _ = fmt.Fprintf(w, ", %s", logs.Printable(c.Error))
				}
				_, _ = fmt.Fprintln(w)
			}
		}
	}
	return n
}
