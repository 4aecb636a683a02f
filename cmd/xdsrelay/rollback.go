package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

func rollbackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback [GENERATION]",
		Short: "Go back to what clients had before, and hold it there",
		Long: `Go back to what clients had before, and hold it there. Without GENERATION the command lists
what the relays remember (cache.generations) and changes nothing.

GENERATION is how long ago clients had it (5m), a time (2026-01-02T15:04:05Z), or a number from
the list. A time means the same to several relays and scopes. A number is that of one scope
of one relay. Changes that followed each other within seconds are one step.

Endpoints and secrets go on as they are. What the control plane sends of all other types is
held, as after "hold". "xdsrelay held" shows the difference, "xdsrelay release" ends it.

` + exitCodes("a relay refused or failed, or the answer was no"),
		Example: `  xdsrelay rollback
  xdsrelay rollback 5m --yes
  xdsrelay rollback 5m --admin 10.0.0.1:19100,10.0.0.2:19100 --upstream istiod --type rds
  xdsrelay rollback 41 --upstream istiod --scope 'cluster="shop"'`,
		Args:              arguments(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := newActFlags(cmd)
	o.last(true)
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return look(o, "/generations", generationsText)
		}
		c := o.command()
		if err := generation(&c, args[0], time.Now()); err != nil {
			return cli.Usage(err, "xdsrelay rollback lists the generations")
		}
		return o.act(pathRollback, &c, func(relays *adminclient.Client) (string, error) {
			if c.Generation != nil && len(relays.Addresses()) > 1 {
				return "", cli.Usage(errors.New("the number of a generation is that of one relay"), "give a time, such as 5m, for several relays")
			}
			return "go back to " + args[0] + " and hold it there", nil
		})
	})
	return cmd
}

// generation puts what an argument names into a command.
func generation(c *admin.Command, argument string, now time.Time) error {
	if n, err := strconv.ParseUint(argument, 10, 64); err == nil {
		c.Generation = &n
		return nil
	}
	if d, err := time.ParseDuration(argument); err == nil && d > 0 {
		c.At = now.Add(-d)
		return nil
	}
	at, err := time.Parse(time.RFC3339, argument)
	if err != nil || at.After(now) {
		return fmt.Errorf("%q is no generation: expected a number, a time before now, or how long ago", argument)
	}
	c.At = at
	return nil
}

// generationsText shows what a relay remembers.
func generationsText(b *bytes.Buffer, a *adminclient.Answer[[]admin.Generations], now time.Time) {
	fmt.Fprintf(b, "%s:\n", a.Address)
	for _, s := range a.Value {
		fmt.Fprintf(b, "  upstream %s, scope %s\n", logs.Printable(s.Upstream), scopeText(s.Scope))
		for _, g := range s.Generations {
			fmt.Fprintf(b, "    %d\t%s\n", g.Number, generationText(&g, now))
		}
	}
}

func generationText(g *cache.Generation, now time.Time) string {
	since := "since " + ago(now, g.Since)
	if g.Until.IsZero() {
		return since + ", now"
	}
	var changes []string
	for _, c := range g.Changes {
		changes = append(changes, fmt.Sprintf("%s %d changed or removed, %d new", logs.Printable(keyer.ShortName(c.TypeURL)), c.Changed, c.New))
	}
	return fmt.Sprintf("%s, until %s: then %s", since, ago(now, g.Until), strings.Join(changes, "; "))
}
