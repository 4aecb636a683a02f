package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
)

// configFlags adds --config and the flags that override keys of the file.
func configFlags(cmd *cobra.Command) *source {
	file := &source{cmd: cmd}
	cmd.Flags().VarP(file, "config", "c", "`file` with the configuration, in YAML; - for standard input (default $"+config.ConfigVariable+")")
	cli.Must(cmd.MarkFlagFilename("config", "yaml", "yml"))
	config.AddFlags(cmd.Flags())
	cli.Complete(cmd, "log-level", string(config.LevelDebug), string(config.LevelInfo), string(config.LevelWarn), string(config.LevelError))
	cli.Complete(cmd, "log-format", string(config.FormatText), string(config.FormatJSON))
	return file
}

// source is where a configuration comes from: the value of --config.
type source struct {
	cmd  *cobra.Command
	path string

	input []byte // of standard input
	read  bool
}

// stdin is the path that stands for standard input.
const stdin = "-"

// Set, String and Type carry out pflag.Value.
func (s *source) Set(path string) error {
	if s.path != "" {
		return fmt.Errorf("expected one file, got %s before", s.path)
	}
	s.path = path
	return nil
}

func (s *source) String() string { return s.path }

// Type is what help shows for the value.
func (*source) Type() string { return "file" }

// find takes the file of the environment if no flag names one.
func (s *source) find() error {
	if s.path == "" {
		s.path = os.Getenv(config.ConfigVariable)
	}
	if s.path == "" {
		return cli.Usage(errors.New("there is no configuration: expected --config FILE"), "the variable "+config.ConfigVariable+" can name the file too; - is standard input")
	}
	return nil
}

// load reads the configuration as serve uses it. Standard input is read once.
func (s *source) load() (*config.Config, error) {
	if s.path != stdin {
		return config.Load(s.path, s.cmd.Flags(), os.Environ())
	}
	if !s.read {
		var err error
		if s.input, err = io.ReadAll(s.cmd.InOrStdin()); err != nil {
			return nil, fmt.Errorf("reading the configuration from standard input: %w", err)
		}
		s.read = true
	}
	return config.LoadData("stdin", s.input, s.cmd.Flags(), os.Environ())
}

// unusable makes the error of a configuration that cannot be used. If it could not be read, the
// command line names the wrong file.
func unusable(err error, hint string) error {
	if problems(err) == nil {
		return cli.Usage(err, "--config takes a file with the configuration, or - for standard input")
	}
	return &cli.Error{Code: cli.ExitFailure, Err: err, Hint: hint}
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
