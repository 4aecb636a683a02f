package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/logs"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE…]",
		Short: "Check a configuration and start nothing",
		Long: `Check a configuration and start nothing. The command checks:

  - the configuration as serve reads it, with the environment and the flags below
  - the files that the configuration names, the expiry of certificates, and cache.dir
  - the tests of the aggregation rules: the tests under aggregation.tests, and the
    tests in files of the same folder with names that end in _test.yaml
  - the tests of the access rules under access.tests

The command says if the relay gives secrets to no client, because no access rule
has secrets: true.

Every problem has its file, line and column.

Warnings are about what works and is risky, for instance an admin port that others can
reach. They do not make a configuration invalid, unless --strict is given.

A file is a configuration of its own. With --output json there is an object for each.

` + localExitCodes("a problem, a failed test, or with --strict a warning"),
		Example: `  xdsrelay validate xdsrelay.yaml
  xdsrelay validate --files=false --output json edge.yaml core.yaml
  helm template . | xdsrelay validate -`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	file := configFlags(cmd)
	files := cmd.Flags().Bool("files", true, "also check files and folders; use false if the configuration is for another machine")
	strict := cmd.Flags().Bool("strict", false, "take warnings for problems")
	tests := cmd.Flags().Bool("tests", true, "also run the tests of the rules")
	output := cli.OutputFlag(cmd, "`format` of the result: text or json")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			if err := file.find(); err != nil {
				return err
			}
			args = []string{file.path}
		} else if file.path != "" {
			return cli.Usage(errors.New("expected the files either as arguments or with --config"), "")
		}
		v := validation{files: *files, strict: *strict, tests: *tests, json: *output == cli.FormatJSON}
		var failed []error
		for _, path := range args {
			failed = append(failed, v.check(&source{cmd: cmd, path: path}))
		}
		return worst(cmd, failed)
	})
	return cmd
}

// worst is the error of a command that did several things: the one with the highest exit code.
// Those before it are printed.
func worst(cmd *cobra.Command, all []error) (last error) {
	for _, err := range all {
		if err == nil {
			continue
		}
		if last != nil {
			if code(err) < code(last) {
				err, last = last, err
			}
			cli.Print(cmd.ErrOrStderr(), last)
		}
		last = err
	}
	return last
}

func code(err error) int {
	if e, ok := errors.AsType[*cli.Error](err); ok {
		return e.Code
	}
	return cli.ExitFailure
}

// validation is how files are validated.
type validation struct{ files, strict, tests, json bool }

// keysHint says where the keys are described.
const keysHint = "https://github.com/xdsrelay/xdsrelay/blob/main/docs/configuration.md lists every key"

// check validates a file and prints the result.
func (v *validation) check(file *source) error {
	cmd, hint := file.cmd, keysHint
	cfg, err := file.load()
	if err == nil && v.files {
		if err = cfg.CheckFiles(); err != nil {
			hint = "--files=false leaves out the files, for a configuration of another machine; relative names follow the working directory"
		}
	}
	var results []config.TestResult
	switch {
	case !v.tests:
	case err == nil:
		results, err = cfg.TestRules()
	default:
		hint += "; the tests of the rules were not run"
	}
	if err != nil && problems(err) == nil {
		return unusable(err, "")
	}
	var warnings []*config.Error
	if err == nil {
		warnings = cfg.Warnings()
		if v.files {
			warnings = append(warnings, cfg.FileWarnings()...)
		}
	}
	if v.json {
		return validityJSON(cmd.OutOrStdout(), file.path, err, warnings, v.strict, results)
	}
	for _, w := range warnings {
		if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", logs.PrintableLines(w.Error())); err != nil {
			return err
		}
	}
	if err != nil {
		return unusable(err, hint)
	}
	if err := validityText(cmd.OutOrStdout(), file.path, cfg, results); err != nil {
		return err
	}
	if v.strict && len(warnings) > 0 {
		return &cli.Error{
			Code: cli.ExitFailure, Err: fmt.Errorf("%s with --strict", plural(len(warnings), "warning")),
			Hint: "docs/security.md says what each key protects from",
		}
	}
	return nil
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
	_, err := fmt.Fprintln(w, logs.PrintableLines(text))
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
