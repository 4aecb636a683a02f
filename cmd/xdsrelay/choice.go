package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is the value of a flag that takes one of a few words.
type choice struct {
	value   string
	choices []string
}

// Set, String and Type carry out pflag.Value.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.choices, s) {
		return fmt.Errorf("expected one of %s", strings.Join(c.choices, ", "))
	}
	c.value = s
	return nil
}

func (c *choice) String() string { return c.value }

// Type is what help shows for the value.
func (*choice) Type() string { return "format" }

// The formats of an output.
const (
	formatText = "text"
	formatJSON = "json"
)

// outputFlag adds --output to cmd.
func outputFlag(cmd *cobra.Command, usage string) *choice {
	c := &choice{value: formatText, choices: []string{formatText, formatJSON}}
	cmd.Flags().VarP(c, "output", "o", usage)
	complete(cmd, "output", c.choices...)
	return c
}

// complete has the shell offer words for a flag, and no files.
func complete(cmd *cobra.Command, flag string, words ...string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
}

// must takes errors that only a mistake in the building of a command can give.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
