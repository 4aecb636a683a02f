package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "xdsrelay",
		Short: "A caching relay for xDS",
		Long: `xdsrelay stands between xDS control planes and a fleet of Envoy and gRPC clients.
For ten thousand clients the control plane serves one stream and one copy of each
subscription. Every update reaches every client at once. When the control plane is
down, the relay serves the fleet from its cache.

` + exitCodes("something is wrong; the help of each command says what"),
		Example: `  xdsrelay validate --config xdsrelay.yaml
  xdsrelay serve --config xdsrelay.yaml
  xdsrelay watch 127.0.0.1:18100 --type cds`,
	}
	root.AddCommand(initCommand(), serveCommand(), validateCommand(), explainCommand(), watchCommand(), cacheCommand(),
		configCommand(), bootstrapCommand(), compareCommand(), devCertsCommand(),
		statusCommand(), checkCommand(), clientsCommand(), rejectionsCommand(), whyCommand(),
		upstreamsCommand(), scopesCommand(), resourcesCommand(), changesCommand(), waitCommand(), diffCommand(), nodesCommand(), collectCommand(),
		heldCommand(), holdCommand(), releaseCommand(), rollbackCommand(), reloadCommand(), passthroughCommand(), versionCommand())
	// cobra's own flag needs a template to print more than a line, and with templates the linker keeps each exported
	// method of each type: 19 MB.
	version := root.Flags().BoolP("version", "v", false, "version for xdsrelay")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return thisBuild().Text(cmd.OutOrStdout(), "xdsrelay")
		}
		return cmd.Help()
	}
	return root
}

// exitCodes ends the help of a command. They are the same for all; failures says what 1 is about.
func exitCodes(failures string) string {
	return localExitCodes(failures) + "\n  3  a relay cannot be reached"
}

// localExitCodes is for commands that reach no relay.
func localExitCodes(failures string) string {
	return "Exit codes:\n  0  well\n  1  " + failures + "\n  2  the command line is wrong, or names a file that cannot be read"
}

// arguments is for commands that take a number of arguments.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("expected %s, got %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"), plural(len(args), "argument"))
		}
		return nil
	}
}

// noArguments is for commands that take flags only.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no argument, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
