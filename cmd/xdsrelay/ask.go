package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// askFlags are the flags of the commands that show what relays have.
type askFlags struct {
	adminFlags

	timeout time.Duration
	watch   bool
	named   bool // table says which relays failed
	output  *string
	cmd     *cobra.Command
}

func newAskFlags(cmd *cobra.Command) *askFlags {
	o := &askFlags{cmd: cmd, timeout: 5 * time.Second}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.add(cmd)
	cli.DurationVar(flags, &o.timeout, "timeout", "`time` that the relays have to answer")
	flags.BoolVarP(&o.watch, "watch", "w", false, "ask again every two seconds, until you stop the command")
	o.output = cli.TableFlag(cmd)
	return o
}

// watchPause is the time between two questions.
const watchPause = 2 * time.Second

// clearScreen has a terminal begin anew.
const clearScreen = "\x1b[H\x1b[2J"

// show asks all relays for a page and shows it. table writes it for people, and returns an error if the
// answers say that something is wrong.
func show[T any](o *askFlags, path string, table func(w io.Writer, answers []adminclient.Answer[T]) error) error {
	relays, err := o.client(o.cmd.Context())
	if err != nil {
		return err
	}
	for {
		err := showOnce(o, relays, path, table)
		if !o.watch {
			return err
		}
		if err != nil {
			cli.Print(o.cmd.ErrOrStderr(), err)
		}
		if !retry.Sleep(o.cmd.Context(), watchPause) {
			return err
		}
	}
}

func showOnce[T any](o *askFlags, relays *adminclient.Client, path string, table func(io.Writer, []adminclient.Answer[T]) error) error {
	ctx, cancel := context.WithTimeout(o.cmd.Context(), o.timeout)
	defer cancel()
	answers := adminclient.Get[T](ctx, relays, path)
	var text bytes.Buffer
	wrong := table(&text, answers)
	out := o.cmd.OutOrStdout()
	var err error
	switch *o.output {
	case cli.FormatJSON:
		err = cli.PrintJSON(out, jsonAnswers(answers))
	case cli.FormatYAML:
		err = cli.PrintYAML(out, jsonAnswers(answers))
	default:
		if _, terminal := cli.Terminal(out); o.watch && terminal {
			_, _ = io.WriteString(out, clearScreen)
		}
		if !o.named {
			failed(&text, answers)
		}
		_, err = out.Write(text.Bytes())
	}
	return cmp.Or(err, wrong, o.outcome(failures(answers), len(answers), ""))
}

// failed says which relays failed, and why.
func failed[T any](w io.Writer, answers []adminclient.Answer[T]) {
	for i := range answers {
		if err := answers[i].Err; err != nil {
			_, _ = fmt.Fprintf(w, "%s: FAILED: %s\n", answers[i].Address, logs.Printable(err.Error()))
		}
	}
}

// wide reports whether nothing is cut.
func (o *askFlags) wide() bool { return *o.output == cli.FormatWide }

// cut shortens what others sent for a table.
func (o *askFlags) cut(s string, most int) string {
	if r := []rune(s); !o.wide() && len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// typed checks what was typed for a type; "" stands for all.
func typed(name string) error {
	if name == "" {
		return nil
	}
	if _, err := keyer.ParseType(name); err != nil {
		return cli.Usage(err, "")
	}
	return nil
}

// atRelays writes a table whose last column is the relay. Of one relay alone it leaves that out.
func atRelays[T any](w io.Writer, answers []adminclient.Answer[T], rows [][]string) {
	if len(answers) == 1 {
		for i, row := range rows {
			rows[i] = row[:len(row)-1]
		}
	}
	columns(w, rows)
}

// columns writes a table. What others sent is shown as text.
func columns(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = logs.Printable(cell)
		}
		_, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) // to memory
	}
	_ = t.Flush()
}

// elapsed is how long ago something was; "-" if it was not.
func elapsed(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return now.Sub(t).Round(time.Second).String()
}

// dash is "-" in place of nothing.
func dash(s string) string { return cmp.Or(s, "-") }

func short(typeURL string) string { return logs.Printable(keyer.ShortName(typeURL)) }
