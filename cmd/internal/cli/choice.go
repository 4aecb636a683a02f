package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/xdsrelay/xdsrelay/config"
)

// DurationVar adds a flag for a time as the configuration has it. to holds the default.
func DurationVar(flags *pflag.FlagSet, to *time.Duration, name, usage string) {
	flags.Var((*duration)(to), name, usage)
}

// duration is the value of a flag for a time.
type duration time.Duration

// Set, String and Type carry out pflag.Value.
func (d *duration) Set(s string) error { return (*config.Duration)(d).UnmarshalText([]byte(s)) }

func (d *duration) String() string {
	if *d == 0 {
		return "" // help shows no default
	}
	return config.Duration(*d).String()
}

// Type is what help shows for the value.
func (*duration) Type() string { return "time" }

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
