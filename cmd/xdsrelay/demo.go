package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/xdsrelay/xdsrelay/internal/demo"
)

func demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a control plane, a relay and a thousand clients on this machine",
		Long: `Run a control plane, a relay and clients in this process, joined by gRPC on the
loopback interface, and show what happens: resources change, the control plane is
killed, new clients join and are served from the cache, and the control plane
comes back with another state.

It ends by itself, or with Ctrl-C. In the end what each client holds is compared
with the control plane, name by name and version by version: if any client
differs the exit code is 1.

On a terminal the view is drawn in place, elsewhere it is a line now and then;
with --output json it goes to standard error and the summary to standard output.`,
		Example: `  xdsrelay demo
  xdsrelay demo --clients 5000 --clients-per-connection 10 --duration 2m
  xdsrelay demo --listen 127.0.0.1:18000 --admin-listen 127.0.0.1:19000
  xdsrelay demo --duration 20s --output json`,
		Args: cobra.NoArgs,
	}
	o := demo.DefaultOptions()
	flags := cmd.Flags()
	flags.IntVar(&o.Clients, "clients", o.Clients, "clients at the start; a tenth as many join later")
	flags.IntVar(&o.ClientsPerConnection, "clients-per-connection", o.ClientsPerConnection, "clients that share a connection to the relay")
	flags.DurationVar(&o.Duration, "duration", o.Duration, "about how much `time` it takes")
	flags.StringVar(&o.Relay, "listen", "", "`address` of the relay (default a free port of 127.0.0.1)")
	flags.StringVar(&o.Admin, "admin-listen", "", "`address` of the relay's admin port (default likewise)")
	flags.StringVar(&o.ControlPlane, "control-plane-listen", "", "`address` of the control plane (default likewise)")
	flags.SortFlags = false
	for _, name := range []string{"clients", "clients-per-connection", "duration", "listen", "admin-listen", "control-plane-listen"} {
		complete(cmd, name)
	}
	output := outputFlag(cmd, "`format` of the summary: text or json")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		view := cmd.OutOrStdout()
		if output.value == formatJSON {
			view = cmd.ErrOrStderr()
		}
		s, err := runDemo(cmd.Context(), o, view)
		if s != nil {
			if err := printSummary(cmd.OutOrStdout(), s, output.value); err != nil {
				return err
			}
		}
		if err == nil && !s.Converged {
			err = fmt.Errorf("%d of %d clients do not hold what the control plane has", s.Clients.Total-s.Clients.Converged, s.Clients.Total)
		}
		return err
	})
	return cmd
}

// runDemo plays the demo and shows it on view.
func runDemo(ctx context.Context, o demo.Options, view io.Writer) (*demo.Summary, error) {
	if err := o.Validate(); err != nil {
		return nil, usage(err, "see xdsrelay demo --help")
	}
	o.Version = thisBuild().Version
	o.Screen = demo.NewLines(view)
	if f, ok := view.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		terminal := demo.NewTerminal(f, colorful(f), func() (width, height int) {
			// What is unknown is zero, and so is not cut.
			width, height, _ = term.GetSize(int(f.Fd()))
			return width, height
		})
		defer terminal.Close()
		o.Screen = terminal
	}
	return demo.Run(ctx, o)
}

func printSummary(out io.Writer, s *demo.Summary, format string) error {
	if format == formatJSON {
		return printJSON(out, s)
	}
	_, err := io.WriteString(out, s.String())
	return err
}
