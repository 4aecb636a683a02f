package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
)

// configFlags adds --config and the flags that override keys of the file.
func configFlags(cmd *cobra.Command) (file *string) {
	file = cmd.Flags().StringP("config", "c", "", "`file` with the configuration, in YAML")
	cli.Must(cmd.MarkFlagRequired("config"))
	cli.Must(cmd.MarkFlagFilename("config", "yaml", "yml"))
	config.AddFlags(cmd.Flags())
	cli.Complete(cmd, "log-level", string(config.LevelDebug), string(config.LevelInfo), string(config.LevelWarn), string(config.LevelError))
	cli.Complete(cmd, "log-format", string(config.FormatText), string(config.FormatJSON))
	return file
}

// load reads the configuration as serve uses it.
func load(cmd *cobra.Command, file string) (*config.Config, error) {
	return config.Load(file, cmd.Flags(), os.Environ())
}

// problems takes an error of package config, which is an errors.Join, apart; nil
// if it is another one.
func problems(err error) []*config.Error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*config.Error
		for _, e := range joined.Unwrap() {
			all = append(all, problems(e)...)
		}
		return all
	}
	if e, ok := errors.AsType[*config.Error](err); ok {
		return []*config.Error{e}
	}
	return nil
}

// plural shows a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
