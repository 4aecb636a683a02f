package main

import (
	"errors"
	"fmt"
	"io"
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

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say what is wrong with relays, their clients and their control planes",
		Long: `Say in one screen what is wrong, the worst first: a control plane that is away, slow or has
lost its resources, clients that reject something, do not acknowledge, or ask for names that
nobody serves, a certificate, a reload that failed. Each has the command that tells more.

Then a line for each relay: how many clients have all that there is for them (current), lack
something (behind), reject something (rejecting), or wait for a control plane (waiting). A
client counts by the worst of its types.

` + exitCodes("something is wrong"),
		Example: `  xdsrelay status
  xdsrelay status --admin dns:xdsrelay-headless.infra:19100 --watch
  xdsrelay status --output json`,
		Args: noArguments,
	}
	o := newAskFlags(cmd)
	o.named = true
	cmd.RunE = cli.Action(func(*cobra.Command, []string) error {
		return show(o, "/status", func(w io.Writer, answers []adminclient.Answer[admin.Status]) error {
			return o.status(w, answers, time.Now())
		})
	})
	return cmd
}

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say in one line whether anything is wrong",
		Long: `Say in one line whether anything is wrong: the first of what "xdsrelay status" shows.

` + exitCodes("something is wrong"),
		Example: `  xdsrelay check && echo well`,
		Args:    noArguments,
	}
	o := newAskFlags(cmd)
	o.named = true
	cmd.RunE = cli.Action(func(*cobra.Command, []string) error {
		return show(o, "/status", func(w io.Writer, answers []adminclient.Answer[admin.Status]) error {
			all, clients := merge(answers)
			switch {
			case len(all) > 1:
				_, _ = fmt.Fprintf(w, "WRONG: %s. And %d more: xdsrelay status.\n", strings.TrimSuffix(sentence(all[0].Text), "."), len(all)-1)
			case len(all) == 1:
				_, _ = fmt.Fprintf(w, "WRONG: %s\n", sentence(all[0].Text))
			default:
				_, _ = fmt.Fprintf(w, "well: %s, %s\n", plural(len(answers), "relay"), connectedText(clients))
			}
			return somethingWrong(len(all) - len(failures(answers)))
		})
	})
	return cmd
}

// somethingWrong is the outcome of a command that found something.
func somethingWrong(n int) error {
	if n == 0 {
		return nil
	}
	return &cli.Error{Code: cli.ExitFailure, Err: errors.New(plural(n, "thing") + " wrong")}
}

// connectedText says how many clients there are. None is no problem of a relay that never had one.
func connectedText(clients int) string {
	if clients == 0 {
		return "no client is connected"
	}
	return plural(clients, "client")
}

// found is a problem of one or several relays.
type found struct {
	admin.Problem

	relays []string
}

// relayFailed is the kind of a problem of a relay that does not answer.
const relayFailed admin.Kind = "relay failed"

// merge adds up what relays say, the worst first. One that does not answer is the worst. One without clients is no problem
// if others have some.
func merge(answers []adminclient.Answer[admin.Status]) (all []found, clients int) {
	for i := range answers {
		if err := answers[i].Err; err != nil {
			all = append(all, found{admin.Problem{Kind: relayFailed, Text: fmt.Sprintf("The relay %s FAILED: %v", answers[i].Address, err)}, []string{answers[i].Address}})
			continue
		}
		v := &answers[i].Value
		clients += v.Clients
		for _, p := range v.Problems {
			at := slices.IndexFunc(all, func(f found) bool { return f.Kind == p.Kind && f.Text == p.Text && f.Resource == p.Resource })
			if at < 0 {
				all = append(all, found{p, []string{answers[i].Address}})
				continue
			}
			f := &all[at]
			f.relays, f.Clients = append(f.relays, answers[i].Address), f.Clients+p.Clients
			if !p.Since.IsZero() && p.Since.Before(f.Since) {
				f.Since = p.Since
			}
		}
	}
	all = slices.DeleteFunc(all, func(f found) bool { return f.Kind == admin.NoClients && clients > 0 })
	slices.SortStableFunc(all, func(a, b found) int { return admin.Compare(&a.Problem, &b.Problem) })
	return all, clients
}

// sentence shows what a relay says, which may quote others, in one line.
func sentence(s string) string { return logs.PrintableLines(strings.Join(strings.Fields(s), " ")) }

// mostProblems is how many problems fit on a screen.
const mostProblems = 12

func (o *askFlags) status(w io.Writer, answers []adminclient.Answer[admin.Status], now time.Time) error {
	all, clients := merge(answers)
	if len(all) == 0 {
		_, _ = fmt.Fprintf(w, "Well: %s, %s.\n\n", plural(len(answers), "relay"), connectedText(clients))
	} else {
		_, _ = fmt.Fprintf(w, "WRONG: %s.\n\n", plural(len(all), "thing"))
	}
	for i := range all {
		if i == mostProblems && !o.wide() {
			_, _ = fmt.Fprintf(w, "… and %d more: --output wide shows all.\n", len(all)-i)
			break
		}
		o.problem(w, &all[i], len(answers), now)
	}
	if len(all) > 0 {
		_, _ = fmt.Fprintln(w)
	}
	rows := [][]string{{"RELAY", "READY", "CLIENTS"}}
	for _, s := range downstream.States {
		rows[0] = append(rows[0], strings.ToUpper(string(s)))
	}
	rows[0] = append(rows[0], "CONTROL PLANES", "CONFIG", "VERSION")
	for i := range answers {
		v := &answers[i].Value
		if answers[i].Err != nil {
			row := slices.Repeat([]string{"-"}, len(rows[0]))
			row[0], row[1] = answers[i].Address, "FAILED"
			rows = append(rows, row)
			continue
		}
		ready := "yes"
		if !v.About.Ready {
			ready = "no"
		}
		row := []string{answers[i].Address, ready, strconv.Itoa(v.Clients)}
		for _, s := range downstream.States {
			row = append(row, strconv.Itoa(v.States[string(s)]))
		}
		planes := make([]string, len(v.Upstreams))
		for i, u := range v.Upstreams {
			planes[i] = u.Name + " " + u.State
			if !u.Silent.IsZero() {
				planes[i] += ", silent for " + elapsed(u.Silent, now)
			}
		}
		rows = append(rows, append(row, o.cut(strings.Join(planes, "; "), 60), v.About.Hash, dash(v.About.Version)))
	}
	columns(w, rows)
	return somethingWrong(len(all) - len(failures(answers)))
}

// problem shows one problem, and at which of several relays it is.
func (o *askFlags) problem(w io.Writer, p *found, asked int, now time.Time) {
	_, _ = fmt.Fprintf(w, "- %s\n", o.ends(p.Text, 200, 200))
	var more []string
	if p.Clients > 0 {
		more = append(more, plural(p.Clients, "client")+": "+nodes(p.Nodes, p.Clients))
	}
	if !p.Since.IsZero() {
		more = append(more, "for "+elapsed(p.Since, now))
	}
	if (asked > 1 || o.wide()) && p.Kind != relayFailed {
		more = append(more, "at "+strings.Join(p.relays, ", "))
	}
	if len(more) > 0 {
		_, _ = fmt.Fprintf(w, "  %s\n", strings.Join(more, "; "))
	}
	if p.Next != "" {
		_, _ = fmt.Fprintf(w, "  next: %s\n", logs.Printable(p.Next))
	}
}

// ends shows a sentence in one line, and of a long one the head and the tail, unless everything is asked for: Envoy quotes
// the resource first and says last what is wrong with it.
func (o *askFlags) ends(s string, head, tail int) string {
	s = sentence(s)
	if r := []rune(s); !o.wide() && len(r) > head+tail+1 {
		return string(r[:head]) + "…" + string(r[len(r)-tail:])
	}
	return s
}

// nodes lists some of n clients.
func nodes(some []string, n int) string {
	all := make([]string, len(some))
	for i, node := range some {
		all[i] = logs.Printable(node)
	}
	text := strings.Join(all, ", ")
	if n > len(some) {
		text += ", …"
	}
	return text
}
