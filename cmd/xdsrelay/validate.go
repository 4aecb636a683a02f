package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/config"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a configuration without starting anything",
		Long: `Check a configuration as serve would read it, the environment and the flags
below included, and the TLS files that it names. Every problem is told with file,
line and column.

It exits with 0 if the configuration is valid, with 1 if not, and with 2 if there
is none to check.`,
		Example: `  xdsrelay validate --config xdsrelay.yaml
  xdsrelay validate --config xdsrelay.yaml --files=false --output json`,
		Args: cobra.NoArgs,
	}
	file := configFlags(cmd)
	files := cmd.Flags().Bool("files", true, "look at the TLS files, too; false where the configuration is for another machine")
	output := outputFlag(cmd, "`format` of the result: text or json")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		cfg, err := load(cmd, *file)
		if err == nil && *files {
			err = cfg.CheckFiles()
		}
		if err != nil && problems(err) == nil {
			return usage(err, "--config names the file to check")
		}
		if output.value == formatJSON {
			return validityJSON(cmd.OutOrStdout(), *file, err)
		}
		if err != nil {
			return &failure{code: exitFailure, err: err, hint: "docs/configuration.md lists every key"}
		}
		return validityText(cmd.OutOrStdout(), *file, cfg)
	})
	return cmd
}

func validityText(w io.Writer, file string, cfg *config.Config) error {
	_, err := fmt.Fprintf(w, "%s: valid, %s, listening on %s\n", file, plural(len(cfg.Upstreams), "upstream"), cfg.Server.Listen)
	return err
}

// validity is the result as JSON.
type validity struct {
	File   string    `json:"file"`
	Valid  bool      `json:"valid"`
	Errors []problem `json:"errors"`
}

type problem struct {
	File    string `json:"file"` // or a variable, or a flag
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

func validityJSON(w io.Writer, file string, invalid error) error {
	v := validity{File: file, Valid: invalid == nil, Errors: []problem{}}
	for _, e := range problems(invalid) {
		v.Errors = append(v.Errors, problem{e.File, e.Line, e.Column, e.Path, e.Message})
	}
	if err := printJSON(w, v); err != nil {
		return err
	}
	if invalid != nil {
		return &failure{code: exitFailure}
	}
	return nil
}

// printJSON writes v for people and programs alike.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
