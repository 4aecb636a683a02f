package main

import (
	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
)

// version is set by the linker: -ldflags '-X main.version=v1.2.3'.
var version string

// thisBuild describes the running program.
func thisBuild() cli.Build { return cli.ThisBuild(version) }

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  noArguments,
	}
	output := cli.OutputFlag(cmd, "`format`: text or json")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		if *output == cli.FormatJSON {
			return cli.PrintJSON(cmd.OutOrStdout(), thisBuild())
		}
		return thisBuild().Text(cmd.OutOrStdout(), "xdsrelay")
	})
	return cmd
}
