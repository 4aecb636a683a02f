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
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

func upstreamsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upstreams [NAME]",
		Short: "Show the control planes, and how they answer",
		Long: `Show a line for each scope of each control plane: whether the control plane can be reached, when
it answered last, how long half of its answers and the slowest hundredth took (requests that
presented no version, within ten minutes), the age of the oldest request that nothing followed
(UNANSWERED: a control plane that does not have what it asks for may be silent), its NACKs, and the
last error, or the types that it leaves unanswered or refuses. --output json has all that the relay knows.

` + exitCodes("a relay refused or failed, or there is no such upstream"),
		Example: `  xdsrelay upstreams
  xdsrelay upstreams istiod --output wide`,
		Args:              arguments(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := newAskFlags(cmd)
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		return show(o, "/upstreams", func(w io.Writer, answers []adminclient.Answer[[]admin.Upstream]) error {
			now := time.Now()
			rows := [][]string{{"UPSTREAM", "STATE", "SCOPE", "SESSION", "ENDPOINT", "CLIENTS", "LAST ANSWER", "P50", "P99", "UNANSWERED", "NACKS", "LAST ERROR", "RELAY"}}
			var known []string
			for i := range answers {
				for _, u := range answers[i].Value {
					known = append(known, u.Name)
					if len(args) > 0 && u.Name != args[0] {
						continue
					}
					sessions := u.Sessions
					if len(sessions) == 0 {
						sessions = []admin.Session{{Scope: "-", LastResponse: u.LastAnswer}}
					}
					for _, s := range sessions {
						rows = append(rows, []string{
							u.Name, dash(u.State), o.cut(scopeText(s.Scope), 30), dash(s.State), o.cut(dash(s.Endpoint), 30), strconv.Itoa(s.Clients),
							elapsed(s.LastResponse, now), seconds(u.Answers.Count, u.Answers.P50), seconds(u.Answers.Count, u.Answers.P99),
							elapsed(notify.Earlier(u.Open, u.Unanswered), now), strconv.FormatUint(s.Nacks, 10), o.cut(dash(cmp.Or(u.Cause, s.LastError, unserved(&s))), 60), answers[i].Address,
						})
					}
				}
			}
			if len(args) > 0 && !slices.Contains(known, args[0]) && len(failures(answers)) == 0 {
				slices.Sort(known)
				return &cli.Error{
					Code: cli.ExitFailure, Err: fmt.Errorf("no relay has an upstream %q", args[0]),
					Hint: "there are: " + strings.Join(slices.Compact(known), ", "),
				}
			}
			atRelays(w, answers, rows)
			return nil
		})
	})
	return cmd
}

// unserved says which types a control plane leaves unanswered, or ends streams for.
func unserved(s *admin.Session) string {
	var all []string
	for _, typeURL := range s.Unanswered {
		all = append(all, short(typeURL)+" never answered")
	}
	for _, typeURL := range s.Unavailable {
		all = append(all, short(typeURL)+" has no service")
	}
	for _, typeURL := range slices.Sorted(maps.Keys(s.Refused)) {
		all = append(all, short(typeURL)+" refused: "+s.Refused[typeURL])
	}
	return strings.Join(all, "; ")
}

// seconds shows a time of some answers; "-" if there was none.
func seconds(answers int, s float64) string {
	if answers == 0 {
		return "-"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

func scopesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scopes",
		Short: "Show which clients share, and by which rule",
		Long: `Show the scopes with the most clients: each is one stream to its control plane and one cache.
UNMENTIONED are fields in which nodes of its clients differ and that no rule looks at.

Then a line for each rule: a rule with about one client for each scope shares nothing. Its scope
has a part that differs for each client, or clients that otherwise decides about are isolated.
"xdsrelay nodes" and "xdsrelay explain --nodes" say what another rule would do.

` + exitCodes("a relay refused or failed"),
		Example: `  xdsrelay scopes`,
		Args:    noArguments,
	}
	o := newAskFlags(cmd)
	cmd.RunE = cli.Action(func(*cobra.Command, []string) error {
		return show(o, "/scopes", func(w io.Writer, answers []adminclient.Answer[admin.Scopes]) error {
			rows := [][]string{{"UPSTREAM", "SCOPE", "RULE", "CLIENTS", "FIRST NODE", "UNMENTIONED", "FAILED", "RELAY"}}
			for i := range answers {
				v := &answers[i].Value
				if v.Result == nil {
					continue
				}
				for _, s := range v.Largest {
					rows = append(rows, []string{
						s.Upstream, o.cut(scopeText(s.Scope), 40), dash(s.Rule), strconv.Itoa(s.Clients), o.cut(dash(s.First), 30),
						o.cut(dash(strings.Join(s.Unmentioned, " ")), 40), o.cut(dash(s.Failed), 60), answers[i].Address,
					})
				}
				for _, s := range v.XDSTP {
					rows = append(rows, []string{s.Upstream, scopeText(s.Scope), "-", strconv.Itoa(s.Clients), "-", "-", "-", answers[i].Address})
				}
			}
			atRelays(w, answers, rows)
			rows = [][]string{{"RULE", "CLIENTS", "SCOPES", "CLIENTS/SCOPE", "FAILED", "RELAY"}}
			for i := range answers {
				if answers[i].Value.Result == nil {
					continue
				}
				for _, r := range answers[i].Value.Rules {
					each := "-"
					if r.Scopes > 0 {
						each = strconv.FormatFloat(float64(r.Clients)/float64(r.Scopes), 'f', 1, 64)
					}
					rows = append(rows, []string{r.Rule, strconv.Itoa(r.Clients), strconv.Itoa(r.Scopes), each, strconv.Itoa(r.Failed), answers[i].Address})
				}
			}
			if len(rows) > 1 {
				_, _ = fmt.Fprintln(w)
				atRelays(w, answers, rows)
			}
			return nil
		})
	})
	return cmd
}

// nothing says that no relay has resources of a type, or the one that was asked for.
func nothing(w io.Writer, args []string) error {
	switch len(args) {
	case 0:
		_, _ = fmt.Fprintln(w, "The relays have no resource.")
	case 1:
		_, _ = fmt.Fprintf(w, "The relays have no resource of type %s.\n", logs.Printable(args[0]))
	default:
		return &cli.Error{
			Code: cli.ExitFailure, Err: fmt.Errorf("no relay has %s %q", args[0], args[1]),
			Hint: fmt.Sprintf("xdsrelay resources %s lists what they have", args[0]),
		}
	}
	return nil
}

func resourcesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resources [TYPE [NAME]]",
		Short: "Show what relays have, with versions",
		Long: `Show the resources that relays have: state, version, age, size, and how many clients ask for
each by name. --output json shows the payload of a single NAME, except those of secrets.

` + exitCodes("a relay refused or failed, or none has NAME"),
		Example: `  xdsrelay resources cds
  xdsrelay resources cds payments --output json`,
		Args: arguments(0, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return typeCompletions(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	o := newAskFlags(cmd)
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		q := url.Values{}
		for i, name := range []string{"type", "name"} {
			if i < len(args) {
				q.Set(name, args[i])
			}
		}
		if err := typed(q.Get("type")); err != nil {
			return err
		}
		return show(o, "/resources?"+q.Encode(), func(w io.Writer, answers []adminclient.Answer[[]admin.Resource]) error {
			now := time.Now()
			rows := [][]string{{"TYPE", "NAME", "STATE", "VERSION", "AGE", "BYTES", "WATCHERS", "UPSTREAM", "SCOPE", "RELAY"}}
			for i := range answers {
				for _, r := range answers[i].Value {
					rows = append(rows, []string{
						short(r.TypeURL), o.cut(r.Name, 60), r.State, o.cut(dash(r.Version), 20), elapsed(r.Updated, now), strconv.Itoa(r.Bytes),
						strconv.Itoa(r.Watchers), r.Upstream, o.cut(scopeText(r.Scope), 30), answers[i].Address,
					})
				}
			}
			if len(rows) == 1 && len(failures(answers)) == 0 {
				return nothing(w, args)
			}
			atRelays(w, answers, rows)
			return nil
		})
	})
	return cmd
}
