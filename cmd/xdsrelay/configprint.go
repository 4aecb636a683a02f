package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the whole configuration, or its schema",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(configPrintCommand(), configSchemaCommand())
	return cmd
}

func configPrintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print --config FILE",
		Short: "Show each key with the value that serve would use",
		Long: `Show each key with the value that serve would use: from the file, the environment and
the flags below, or the default. The result is a configuration, in the form of the file.

The command shows the names of upstreams[].metadata and hides the values.

` + localExitCodes("the configuration is not usable"),
		Example: `  xdsrelay config print --config xdsrelay.yaml
  diff <(xdsrelay config print -c old.yaml) <(xdsrelay config print -c new.yaml)`,
		Args: noArguments,
	}
	file := configFlags(cmd)
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		if err := file.find(); err != nil {
			return err
		}
		cfg, err := file.load()
		if err != nil {
			return unusable(err, keysHint)
		}
		text, err := cfg.YAML()
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	})
	return cmd
}

func configSchemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Show the JSON schema of the configuration",
		Long: `Show the JSON schema of the configuration. Editors complete and check keys with it if the
first line of the file is:

  # yaml-language-server: $schema=` + config.SchemaURL + `

The schema knows keys, types and defaults. "xdsrelay validate" checks everything.

` + localExitCodes("the schema cannot be written"),
		Example: `  xdsrelay config schema > xdsrelay.schema.json`,
		Args:    noArguments,
	}
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		_, err := io.WriteString(cmd.OutOrStdout(), config.JSONSchema())
		return err
	})
	return cmd
}
