package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// actFlags are the flags of the commands that ask relays for what they hold, or change it.
type actFlags struct {
	adminFlags

	timeout  time.Duration
	upstream string
	scope    string
	types    []string
	yes      bool
	future   bool
	output   *string

	cmd *cobra.Command
}

// newActFlags gives a command the flags that all of them have.
func newActFlags(cmd *cobra.Command) *actFlags {
	o := &actFlags{cmd: cmd}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.add(cmd)
	flags.StringVar(&o.upstream, "upstream", "", "only this `upstream` (default all)")
	flags.StringVar(&o.scope, "scope", "", "only this `scope`; \"\" is that of xdstp names (default all)")
	flags.StringSliceVarP(&o.types, "type", "t", nil, "only this resource `type`; repeatable (default all)")
	cli.Complete(cmd, "upstream")
	cli.Complete(cmd, "scope")
	cli.Complete(cmd, "type", typeCompletions()...)
	return o
}

// mayCome adds the flag for what is not there yet.
func (o *actFlags) mayCome() {
	o.cmd.Flags().BoolVar(&o.future, "future", false, "the upstream, scope or type need not be there yet")
}

// last adds the flags that help lists last. sure says that the command asks before it acts.
func (o *actFlags) last(sure bool) {
	if sure {
		o.cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	}
	o.timeout = 5 * time.Second
	cli.DurationVar(o.cmd.Flags(), &o.timeout, "timeout", "`time` that the relays have to answer")
	o.output = cli.OutputFlag(o.cmd, "`format` of the result: text or json")
}

// command is what the flags select.
func (o *actFlags) command() admin.Command {
	c := admin.Command{Upstream: o.upstream, Types: o.types, Future: o.future}
	if o.cmd.Flags().Changed("scope") {
		c.Scope = new(o.scope)
	}
	return c
}

// client asks the relays that the flags name, if they name types that are some.
func (o *actFlags) client(ctx context.Context) (*adminclient.Client, error) {
	for _, t := range o.types {
		if err := typed(t); err != nil {
			return nil, err
		}
	}
	return o.adminFlags.client(ctx)
}

// query is the same for a page.
func (o *actFlags) query() string {
	q := url.Values{}
	if o.upstream != "" {
		q.Set("upstream", o.upstream)
	}
	if o.cmd.Flags().Changed("scope") {
		q.Set("scope", o.scope)
	}
	for _, t := range o.types {
		q.Add("type", t)
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// selection says what a command selects.
func selection(c *admin.Command) string {
	words := []string{"upstream " + cmp.Or(logs.Printable(c.Upstream), "all")}
	switch {
	case c.Scope == nil:
		words = append(words, "scope all")
	case *c.Scope == "":
		words = append(words, "scope of xdstp names")
	default:
		words = append(words, "scope "+logs.Printable(*c.Scope))
	}
	return strings.Join(append(words, "type "+cmp.Or(logs.Printable(strings.Join(c.Types, ", ")), "all")), ", ")
}

// scopeText shows the scope of a table.
func scopeText(scope string) string { return cmp.Or(logs.Printable(scope), "(xdstp names)") }

// act has all relays carry out a command, after the operator agreed to what question says of them.
func (o *actFlags) act(path string, c *admin.Command, question func(*adminclient.Client) (string, error)) error {
	relays, err := o.client(o.cmd.Context())
	if err != nil {
		return err
	}
	text, err := question(relays)
	if err != nil {
		return err
	}
	if !o.yes {
		cmd := o.cmd
		in, terminal := cmd.InOrStdin().(*os.File)
		terminal = terminal && term.IsTerminal(int(in.Fd()))
		text = fmt.Sprintf("%s (%s) on %s?", text, selection(c), strings.Join(relays.Addresses(), ", "))
		if err := confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), terminal, text); err != nil {
			return err
		}
	}
	return o.post(relays, path, c)
}

// asking is a question that is the same for all relays.
func asking(text string) func(*adminclient.Client) (string, error) {
	return func(*adminclient.Client) (string, error) { return text, nil }
}

// look shows a page of all relays, of what the flags select. text does it for people.
func look[T any](o *actFlags, page string, text func(*bytes.Buffer, *adminclient.Answer[T], time.Time)) error {
	relays, err := o.client(o.cmd.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(o.cmd.Context(), o.timeout)
	defer cancel()
	answers, now := adminclient.Get[T](ctx, relays, page+o.query()), time.Now()
	if err := printed(o, answers, func(b *bytes.Buffer, a *adminclient.Answer[T]) { text(b, a, now) }); err != nil {
		return err
	}
	return o.outcome(failures(answers), len(answers), "")
}

// printed writes answers as the flags want them. text writes what a relay answered for people.
func printed[T any](o *actFlags, answers []adminclient.Answer[T], text func(*bytes.Buffer, *adminclient.Answer[T])) error {
	out := o.cmd.OutOrStdout()
	if *o.output == cli.FormatJSON {
		return cli.PrintJSON(out, jsonAnswers(answers))
	}
	var b bytes.Buffer
	for i := range answers {
		if a := &answers[i]; a.Err != nil {
			failed(&b, answers[i:i+1])
		} else {
			text(&b, a)
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}

// send has relays carry out a command, and shows what they answer.
func (o *actFlags) send(relays *adminclient.Client, path string, c *admin.Command, text func(*bytes.Buffer, *adminclient.Answer[admin.Done])) ([]adminclient.Answer[admin.Done], error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(o.cmd.Context(), o.timeout)
	defer cancel()
	answers := adminclient.Post[admin.Done](ctx, relays, path, body)
	return answers, printed(o, answers, text)
}

// post has relays carry out a command, and shows what became of it.
func (o *actFlags) post(relays *adminclient.Client, path string, c *admin.Command) error {
	answers, err := o.send(relays, path, c, func(b *bytes.Buffer, a *adminclient.Answer[admin.Done]) { doneText(b, a, path) })
	if err != nil {
		return err
	}
	idle := 0
	for i := range answers {
		a := &answers[i]
		if _, _, failed := a.Value.Totals(); a.Err == nil && failed > 0 {
			a.Err = errPartly
		}
		if a.Value.Nothing {
			idle++
		}
	}
	if idle == len(answers) {
		hint := "xdsrelay held shows what is held"
		if path == pathPassOn || path == pathPassOff {
			hint = "xdsrelay status shows what is served 1:1"
		}
		return &cli.Error{Code: cli.ExitFailure, Err: errors.New("there was nothing to do"), Hint: hint}
	}
	return o.outcome(failures(answers), len(answers), "mend the cause, and run the command again for these: what is done already stays as it is")
}

// errPartly is that a relay did not do it in every scope.
var errPartly = errors.New("not done in every scope")

// confirm asks the operator. Where nobody can answer, the command is not carried out.
func confirm(in io.Reader, out io.Writer, terminal bool, question string) error {
	if !terminal {
		return cli.Usage(errors.New("there is no terminal to confirm this"), "add --yes")
	}
	_, _ = fmt.Fprintf(out, "%s [y/N] ", question)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && line == "" {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return &cli.Error{Code: cli.ExitFailure, Err: errors.New("not confirmed: nothing was done")}
}

// jsonAnswer is the answer of one relay for programs.
type jsonAnswer[T any] struct {
	Relay       string `json:"relay"`
	Error       string `json:"error,omitempty"`
	Unreachable bool   `json:"unreachable,omitempty"`
	Answer      *T     `json:"answer,omitempty"`
}

func jsonAnswers[T any](answers []adminclient.Answer[T]) []jsonAnswer[T] {
	all := make([]jsonAnswer[T], len(answers))
	for i := range answers {
		a := &answers[i]
		all[i].Relay = a.Address
		if a.Err == nil {
			all[i].Answer = &a.Value
			continue
		}
		all[i].Error, all[i].Unreachable = a.Err.Error(), unreachable(a.Err)
	}
	return all
}

func unreachable(err error) bool {
	_, ok := errors.AsType[*adminclient.UnreachableError](err)
	return ok
}

func failures[T any](answers []adminclient.Answer[T]) (all []error) {
	for i := range answers {
		if err := answers[i].Err; err != nil {
			all = append(all, err)
		}
	}
	return all
}

// outcome is the error of a command that some relays did not carry out. again is the hint if nothing
// better is known.
func (o *adminFlags) outcome(failed []error, relays int, again string) error {
	if len(failed) == 0 {
		return nil
	}
	code, hint := cli.ExitUnreachable, ""
	for _, err := range failed {
		if !unreachable(err) {
			code = cli.ExitFailure
		}
		hint = cmp.Or(hint, o.remedy(err))
	}
	return &cli.Error{Code: code, Err: fmt.Errorf("%d of %d relays failed", len(failed), relays), Hint: cmp.Or(hint, again)}
}

// doneText says what a relay did.
func doneText(b *bytes.Buffer, a *adminclient.Answer[admin.Done], path string) {
	released, changed, failed := a.Value.Totals()
	switch {
	case path == pathReload:
		fmt.Fprintf(b, "%s: the configuration is in force", a.Address)
	case path == pathPassOn || path == pathPassOff:
		passText(b, a, path)
	case a.Value.Nothing:
		fmt.Fprintf(b, "%s: nothing was held", a.Address)
	case len(a.Value.Scopes) == 0:
		fmt.Fprintf(b, "%s: done; there is no such scope yet, it is for those that begin later", a.Address)
	default:
		fmt.Fprintf(b, "%s: done in %s", a.Address, plural(len(a.Value.Scopes)-failed, "scope"))
	}
	switch {
	case a.Value.Nothing:
	case path == pathRelease:
		fmt.Fprintf(b, ", %s released", plural(released, "name"))
	case path == pathRollback:
		fmt.Fprintf(b, ", %s changed back", plural(changed, "name"))
	}
	b.WriteString("\n")
	for _, s := range a.Value.Scopes {
		if s.Error != "" {
			fmt.Fprintf(b, "  FAILED in scope %s of upstream %s: %s\n", scopeText(s.Scope), logs.Printable(s.Upstream), logs.Printable(s.Error))
		}
	}
	for _, warning := range a.Value.Warnings {
		fmt.Fprintf(b, "  warning: %s\n", logs.Printable(warning))
	}
}

// The pages that take commands.
const (
	pathHold    = "/hold"
	pathRelease = "/release"

	pathRollback = "/rollback"
	pathReload   = "/reload"

	pathPassthrough = "/passthrough"
	pathPassOn      = pathPassthrough + "/on"
	pathPassOff     = pathPassthrough + "/off"
)

func holdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold",
		Short: "Freeze what clients get, until it is released",
		Long: `Freeze what clients get. From then on the relay holds back every change and every removal
of what the flags select. It acknowledges them to the control plane at once. New clients
get what is frozen. "xdsrelay held" shows the difference, "xdsrelay release" ends it.

Scopes that begin later are frozen after their first state. These pass: secrets, a ttl that
runs out, PERMISSION_DENIED, and names of which the relay knew nothing. With cache.dir it
lasts across restarts. Without it the command warns.

A relay refuses an upstream, scope or type that it does not have, unless --future is given.

` + exitCodes("a relay refused or failed, there was nothing to do, or the answer was no"),
		Example: `  xdsrelay hold --yes
  xdsrelay hold --upstream istiod --type lds --type rds --for 30m
  xdsrelay hold --admin 10.0.0.1:19100,10.0.0.2:19100
  xdsrelay hold --admin dns:xdsrelay-headless.infra:19100`,
		Args: noArguments,
	}
	o := newActFlags(cmd)
	o.mayCome()
	var length time.Duration
	cli.DurationVar(cmd.Flags(), &length, "for", "release it after this `time` (default never)")
	o.last(true)
	cmd.RunE = cli.Action(func(*cobra.Command, []string) error {
		c := o.command()
		if cmd.Flags().Changed("for") {
			c.For = length.String()
		}
		return o.act(pathHold, &c, asking("hold what clients get"))
	})
	return cmd
}

func releaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Tell clients what is held back",
		Long: `Tell clients what is held back of what the flags select: by the guard (upstreams[].guard), by
"hold" or by "rollback". Clients of a scope are told all of it at once, in make-before-break
order. Nothing of it is held from then on. If nothing was held, the command fails.

` + exitCodes("a relay refused or failed, there was nothing to do, or the answer was no"),
		Example: `  xdsrelay release --yes
  xdsrelay release --upstream istiod --type cds
  xdsrelay release --guard`,
		Args: noArguments,
	}
	o := newActFlags(cmd)
	o.mayCome()
	guard := cmd.Flags().Bool("guard", false, "only what the guard holds")
	o.last(true)
	cmd.RunE = cli.Action(func(*cobra.Command, []string) error {
		c := o.command()
		c.Guard = *guard
		return o.act(pathRelease, &c, asking("release what is held"))
	})
	return cmd
}
