package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a configuration and start nothing",
		Long: `Check a configuration and start nothing. The command checks:

  - the configuration as serve reads it, with the environment and the flags below
  - the TLS files that the configuration names
  - the tests of the aggregation rules: the tests under aggregation.tests, and the
    tests in files of the same folder with names that end in _test.yaml
  - the tests of the access rules under access.tests

The command says if the relay gives secrets to no client, because no access rule
has secrets: true.

Every problem has its file, line and column.

Warnings are about what works and is risky, for instance an admin port that others can
reach. They do not make a configuration invalid, unless --strict is given.

Exit codes: 0 the configuration is valid and all tests pass, 1 a problem, a failed
test, or with --strict a warning, 2 no configuration to check.`,
		Example: `  xdsrelay validate --config xdsrelay.yaml
  xdsrelay validate --config xdsrelay.yaml --files=false --output json`,
		Args: cobra.NoArgs,
	}
	file := configFlags(cmd)
	files := cmd.Flags().Bool("files", true, "also check the TLS files; use false if the configuration is for another machine")
	strict := cmd.Flags().Bool("strict", false, "take warnings for problems")
	tests := cmd.Flags().Bool("tests", true, "also run the tests of the rules")
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
			return cli.Usage(err, "--config takes the file to check")
		}
		var warnings []*config.Error
		if err == nil {
			warnings = cfg.Warnings()
		}
		if *output == cli.FormatJSON {
			return validityJSON(cmd.OutOrStdout(), *file, err, warnings, *strict, results)
		}
		for _, w := range warnings {
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", w); err != nil {
				return err
			}
		}
		if err != nil {
			return &cli.Error{Code: cli.ExitFailure, Err: err, Hint: "docs/configuration.md lists every key"}
		}
		if err := validityText(cmd.OutOrStdout(), *file, cfg, results); err != nil {
			return err
		}
		if *strict && len(warnings) > 0 {
			return &cli.Error{
				Code: cli.ExitFailure, Err: fmt.Errorf("%s with --strict", plural(len(warnings), "warning")),
				Hint: "docs/security.md says what each key protects from",
			}
		}
		return nil
	})
	return cmd
}

// validityText prints the result for a valid configuration, and for its tests.
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
			Hint: fmt.Sprintf("%d of %s passed; xdsrelay explain shows the reasons for a decision", len(results)-len(failed), plural(len(results), "rule test")),
		}
	}
	text := fmt.Sprintf("%s: valid, %s, listening on %s", file, plural(len(cfg.Upstreams), "upstream"), cfg.Server.Listen)
	if n := len(cfg.Aggregation.Rules); n > 0 {
		text += ", " + plural(n, "aggregation rule")
	}
	allowed, verified := cfg.CountAccess()
	if allowed > 0 {
		text += ", " + plural(allowed, "access rule")
	}
	if verified > 0 {
		text += ", " + plural(verified, "verify rule")
	}
	if len(results) > 0 {
		text += ", " + plural(len(results), "rule test") + " passed"
	}
	switch listeners, all := cfg.SecretsDenied(); {
	case all:
		text += "\nsecrets (" + strings.Join(cfg.Types.Secret, ", ") + ") are denied to all clients: no rule of access.rules has secrets: true"
	case len(listeners) > 0:
		text += "\nsecrets (" + strings.Join(cfg.Types.Secret, ", ") + ") are denied to clients of the listeners " +
			strings.Join(listeners, ", ") + ": none of their access rules has secrets: true"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// validity is the result as JSON.
type validity struct {
	File     string     `json:"file"`
	Valid    bool       `json:"valid"` // neither errors nor tests that failed, nor warnings with --strict
	Errors   []problem  `json:"errors"`
	Warnings []problem  `json:"warnings"` // empty where there are errors
	Tests    []ruleTest `json:"tests"`    // likewise
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

func validityJSON(w io.Writer, file string, invalid error, warnings []*config.Error, strict bool, results []config.TestResult) error {
	v := validity{File: file, Valid: invalid == nil && (!strict || len(warnings) == 0), Errors: []problem{}, Warnings: []problem{}, Tests: []ruleTest{}}
	for _, e := range problems(invalid) {
		v.Errors = append(v.Errors, problemOf(e))
	}
	for _, w := range warnings {
		v.Warnings = append(v.Warnings, problemOf(w))
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
