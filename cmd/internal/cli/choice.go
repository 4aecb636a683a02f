package cli

import (
	"fmt"
	"slices"
	"strings"
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
