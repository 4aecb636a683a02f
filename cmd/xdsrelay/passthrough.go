package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

func passthroughCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "passthrough on|off",
		Short: "Serve clients 1:1, to see whether the relay is at fault",
		Long: `Serve clients 1:1. From then on each stream that the flags select has a stream of its own to
its control plane. What either side sends is passed on byte for byte and in order: nothing is
shared, kept, held or put in order. A fault that stays is not the relay's. "off" ends it.

The command says first how many streams that opens at the control planes. The streams end with
UNAVAILABLE within two seconds, and their clients connect again. Access rules and limits stay
in force: a client that would get what it may not have loses its stream, with the rule's name.

An aggregated stream (ADS) goes to one control plane, that of its first request. --type selects
streams of the type's own service, and no aggregated ones. Polls over REST are not passed
through: the cache serves them as before. So it is where a control plane is polled, or files.

It lasts until the relay restarts. The key passthrough of the configuration keeps it.

` + exitCodes("a relay refused or failed, there was nothing to do, or the answer was no"),
		Example: `  xdsrelay passthrough on --yes
  xdsrelay passthrough on --upstream istiod --scope edge
  xdsrelay passthrough on --type eds
  xdsrelay passthrough off --yes`,
		ValidArgs: []string{"on", "off"},
		Args:      cobra.MatchAll(arguments(1, 1), cobra.OnlyValidArgs),
	}
	o := newActFlags(cmd)
	o.last(true)
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		path := pathPassOff
		if args[0] == "on" {
			path = pathPassOn
		}
		c := o.command()
		return o.act(path, &c, func(relays *adminclient.Client) (string, error) {
			question := o.passQuestion(relays, path)
			if o.yes {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), question)
			}
			return question, nil
		})
	})
	return cmd
}

// passQuestion says what the command comes to.
func (o *actFlags) passQuestion(relays *adminclient.Client, path string) string {
	ctx, cancel := context.WithTimeout(o.cmd.Context(), o.timeout)
	defer cancel()
	cached, passed := 0, 0
	for _, a := range adminclient.Get[admin.Passthrough](ctx, relays, pathPassthrough+o.query()) {
		cached, passed = cached+a.Value.Cached, passed+a.Value.Passed // of a relay that does not answer the command tells
	}
	if path == pathPassOn {
		return fmt.Sprintf("serve clients 1:1: %s would each open a stream to a control plane", plural(cached, "client stream"))
	}
	return fmt.Sprintf("serve clients from the cache again: %s would come back to it", plural(passed, "client stream"))
}

// passText says what a relay did.
func passText(b *bytes.Buffer, a *adminclient.Answer[admin.Done], path string) {
	switch {
	case a.Value.Nothing && path == pathPassOn:
		fmt.Fprintf(b, "%s: it is so already", a.Address)
	case a.Value.Nothing:
		fmt.Fprintf(b, "%s: no client is served 1:1", a.Address)
	case path == pathPassOn:
		fmt.Fprintf(b, "%s: done; %s, and each opens one to a control plane", a.Address, again(a.Value.Streams))
	default:
		fmt.Fprintf(b, "%s: done; %s, and the cache serves them", a.Address, again(a.Value.Streams))
	}
}

func again(streams int) string {
	if streams == 1 {
		return "1 client stream connects again"
	}
	return fmt.Sprintf("%d client streams connect again", streams)
}
