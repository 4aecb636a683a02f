// Command xdsrelay-demo shows the relay at work on one machine: a control plane, a
// relay and a thousand clients in one process.
//
// The demo is a program of its own because it needs go-control-plane's server. The
// relay that operators install does not link that.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay-demo/internal/demo"
)

// version is set by the linker: -ldflags '-X main.version=v1.2.3'.
var version string

func main() { cli.Main(rootCommand()) }

func rootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "xdsrelay-demo",
		Short: "Run a control plane, a relay and a thousand clients on this machine",
		Long: `Run a control plane, a relay and clients in this process, joined by gRPC on the
loopback interface, and show what happens: resources change, the control plane is
killed, new clients join and are served from the cache, and the control plane
comes back with another state.

It ends by itself, or with Ctrl-C. With --stay the control plane, the relay and the
clients go on after the summary, and it prints their addresses. In the end what each client holds is compared
with the control plane, name by name and version by version: if any client
differs the exit code is 1.

On a terminal the view is drawn in place, elsewhere it is a line now and then;
with --output json it goes to standard error and the summary to standard output.`,
		Example: `  xdsrelay-demo --duration 20s --output json
  xdsrelay-demo --clients 5000 --clients-per-connection 10 --duration 2m
  xdsrelay-demo --clients 10 --duration 5s --stay --control-plane-listen 127.0.0.1:5678
  xdsrelay-demo --listen 127.0.0.1:18100 --admin-listen 127.0.0.1:19100`,
		Args: cobra.NoArgs,
	}
	o := demo.DefaultOptions()
	flags := cmd.Flags()
	flags.IntVar(&o.Clients, "clients", o.Clients, "clients at the start; a tenth as many join later")
	flags.IntVar(&o.ClientsPerConnection, "clients-per-connection", o.ClientsPerConnection, "clients that share a connection to the relay")
	flags.DurationVar(&o.Duration, "duration", o.Duration, "about how much `time` it takes")
	stay := flags.Bool("stay", false, "go on after the summary, for commands to try, until Ctrl-C")
	flags.StringVar(&o.Relay, "listen", "", "`address` of the relay (default a free port of 127.0.0.1)")
	flags.StringVar(&o.Admin, "admin-listen", "", "`address` of the relay's admin port (default likewise)")
	flags.StringVar(&o.ControlPlane, "control-plane-listen", "", "`address` of the control plane (default likewise)")
	flags.SortFlags = false
	for _, name := range []string{"clients", "clients-per-connection", "duration", "listen", "admin-listen", "control-plane-listen"} {
		cli.Complete(cmd, name)
	}
	output := cli.OutputFlag(cmd, "`format` of the summary: text or json")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		view := cmd.OutOrStdout()
		if *output == cli.FormatJSON {
			view = cmd.ErrOrStderr()
		}
		var printed error
		stayed := false
		if *stay {
			o.Stay = func(s *demo.Summary, at demo.Addresses) {
				stayed = true
				printed = errors.Join(printSummary(cmd.OutOrStdout(), s, *output), printAddresses(view, at))
			}
		}
		s, err := runDemo(cmd.Context(), o, view)
		if s != nil && !stayed {
			printed = printSummary(cmd.OutOrStdout(), s, *output)
		}
		if printed != nil {
			return printed
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
		return nil, cli.Usage(err, "see xdsrelay-demo --help")
	}
	o.Version = cli.ThisBuild(version).Version
	o.Screen = demo.NewLines(view)
	if f, ok := cli.Terminal(view); ok {
		terminal := demo.NewTerminal(f, cli.Colorful(f), func() (width, height int) {
			// What is unknown is zero, and so is not cut.
			width, height, _ = term.GetSize(int(f.Fd()))
			return width, height
		})
		defer terminal.Close()
		o.Screen = terminal
		if stay := o.Stay; stay != nil {
			o.Stay = func(s *demo.Summary, at demo.Addresses) {
				terminal.Close()
				stay(s, at)
			}
		}
	}
	return demo.Run(ctx, o)
}

// printAddresses says what there is to try.
func printAddresses(out io.Writer, at demo.Addresses) error {
	_, err := fmt.Fprintf(out, `
The control plane is on %[1]s, the relay on %[2]s. Both go on until Ctrl-C. Try:
  xdsrelay watch %[2]s --type cds
  xdsrelay watch %[1]s --type cds
  xdsrelay hold --admin %[3]s --for 1m
  curl http://%[3]s/
A relay of your own at the control plane: xdsrelay init --control-plane %[1]s --otherwise share
`, at.ControlPlane, at.Relay, at.Admin)
	return err
}

func printSummary(out io.Writer, s *demo.Summary, format string) error {
	if format == cli.FormatJSON {
		return cli.PrintJSON(out, s)
	}
	_, err := io.WriteString(out, s.String())
	return err
}
