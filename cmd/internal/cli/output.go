package cli

import (
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/term"
)

// The formats of an output.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// The formats of a table.
const (
	FormatTable = "table"
	FormatWide  = "wide"
	FormatYAML  = "yaml"
)

// OutputFlag adds --output to cmd and returns its value.
func OutputFlag(cmd *cobra.Command, usage string) *string {
	return outputFlag(cmd, usage, FormatText, FormatJSON)
}

// TableFlag adds --output to a command that prints a table, and returns its value.
func TableFlag(cmd *cobra.Command) *string {
	return outputFlag(cmd, "`format` of the result: table, wide, json or yaml", FormatTable, FormatWide, FormatJSON, FormatYAML)
}

func outputFlag(cmd *cobra.Command, usage string, choices ...string) *string {
	return choiceFlag(cmd, "output", "o", usage, choices)
}

// ChoiceFlag adds a flag to cmd that has one of some values, the first unless it is given, and returns its value.
func ChoiceFlag(cmd *cobra.Command, name, usage string, choices ...string) *string {
	return choiceFlag(cmd, name, "", usage, choices)
}

func choiceFlag(cmd *cobra.Command, name, shorthand, usage string, choices []string) *string {
	c := &choice{value: choices[0], choices: choices}
	cmd.Flags().VarP(c, name, shorthand, usage)
	Complete(cmd, name, choices...)
	return &c.value
}

// Complete has the shell offer words for a flag, and no files.
func Complete(cmd *cobra.Command, flag string, words ...string) {
	Must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
}

// Must takes errors that only a mistake in the building of a command can give.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// PrintJSON writes v for people and programs alike.
func PrintJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// PrintYAML writes what PrintJSON writes, as YAML.
func PrintYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var node yaml.Node // which keeps the order of the keys
	if err := yaml.Unmarshal(data, &node); err != nil {
		return err
	}
	plain(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return e.Encode(&node)
}

// plain takes JSON's style from a node.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		plain(c)
	}
}

// Terminal returns out's file if out is a terminal on which one can draw.
func Terminal(out io.Writer) (f *os.File, ok bool) {
	f, ok = out.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Colorful tells whether out is a terminal that wants colors (no-color.org).
func Colorful(out io.Writer) bool {
	_, ok := Terminal(out)
	return ok && os.Getenv("NO_COLOR") == ""
}
