package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a configuration without starting anything",
		Long: `Check a configuration as serve would read it, the environment and the flags
below included, the TLS files that it names, and the tests of its aggregation
rules: those under aggregation.tests, and those in files of its folder whose names
end in _test.yaml. Every problem is told with file, line and column.

It exits with 0 if the configuration is valid and no test fails, with 1 if not, and
with 2 if there is none to check.`,
		Example: `  xdsrelay validate --config xdsrelay.yaml
  xdsrelay validate --config xdsrelay.yaml --files=false --output json`,
		Args: cobra.NoArgs,
	}
	file := configFlags(cmd)
	files := cmd.Flags().Bool("files", true, "look at the TLS files, too; false where the configuration is for another machine")
	tests := cmd.Flags().Bool("tests", true, "run the tests of the aggregation rules, too")
	output := cli.OutputFlag(cmd, "`format` of the result: text or json")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		cfg, err := load(cmd, *file)
		if err == nil && *files {
			err = cfg.CheckFiles()
		}
		var results []config.TestResult
		if err == nil && *tests {
			results, err = cfg.TestRules()
		}
		if err != nil && problems(err) == nil {
			return cli.Usage(err, "--config names the file to check")
		}
		if *output == cli.FormatJSON {
			return validityJSON(cmd.OutOrStdout(), *file, err, results)
		}
		if err != nil {
			return &cli.Error{Code: cli.ExitFailure, Err: err, Hint: "docs/configuration.md lists every key"}
		}
		return validityText(cmd.OutOrStdout(), *file, cfg, results)
	})
	return cmd
}

// validityText tells of a valid configuration, and of its tests.
func validityText(w io.Writer, file string, cfg *config.Config, results []config.TestResult) error {
	var failed []error
	for _, r := range results {
		if r.Failure != nil {
			failed = append(failed, r.Failure)
		}
	}
	if len(failed) > 0 {
		return &cli.Error{
			Code: cli.ExitFailure, Err: errors.Join(failed...),
			Hint: fmt.Sprintf("%d of %s passed; xdsrelay explain shows how a decision comes about", len(results)-len(failed), plural(len(results), "rule test")),
		}
	}
	text := fmt.Sprintf("%s: valid, %s, listening on %s", file, plural(len(cfg.Upstreams), "upstream"), cfg.Server.Listen)
	if n := len(cfg.Aggregation.Rules); n > 0 {
		text += ", " + plural(n, "aggregation rule")
	}
	if len(results) > 0 {
		text += ", " + plural(len(results), "rule test") + " passed"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// validity is the result as JSON.
type validity struct {
	File   string     `json:"file"`
	Valid  bool       `json:"valid"` // neither errors nor tests that failed
	Errors []problem  `json:"errors"`
	Tests  []ruleTest `json:"tests"` // empty where there are errors
}

type problem struct {
	File    string `json:"file"` // or a variable, or a flag
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// ruleTest is what became of a test of the aggregation rules.
type ruleTest struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Path   string `json:"path"`
	Passed bool   `json:"passed"`
	// Failure is what was expected, what became of it, and why; or why the test could
	// not be run.
	Failure *problem `json:"failure,omitempty"`
}

func validityJSON(w io.Writer, file string, invalid error, results []config.TestResult) error {
	v := validity{File: file, Valid: invalid == nil, Errors: []problem{}, Tests: []ruleTest{}}
	for _, e := range problems(invalid) {
		v.Errors = append(v.Errors, problemOf(e))
	}
	for _, r := range results {
		test := ruleTest{Name: r.Name, File: r.File, Line: r.Line, Column: r.Column, Path: r.Path, Passed: r.Failure == nil}
		if r.Failure != nil {
			v.Valid, test.Failure = false, new(problemOf(r.Failure))
		}
		v.Tests = append(v.Tests, test)
	}
	if err := cli.PrintJSON(w, v); err != nil {
		return err
	}
	if !v.Valid {
		return &cli.Error{Code: cli.ExitFailure}
	}
	return nil
}

func problemOf(e *config.Error) problem { return problem{e.File, e.Line, e.Column, e.Path, e.Message} }
