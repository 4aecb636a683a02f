package cli

import (
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The formats of an output.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// OutputFlag adds --output to cmd and returns its value.
func OutputFlag(cmd *cobra.Command, usage string) *string {
	c := &choice{value: FormatText, choices: []string{FormatText, FormatJSON}}
	cmd.Flags().VarP(c, "output", "o", usage)
	Complete(cmd, "output", c.choices...)
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
