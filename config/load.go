package config

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Load reads the file at path, lays the variables of environ (in the form of
// [os.Environ]) and those flags of [AddFlags] that were given over it, and
// validates the result. With an empty path there is no file; flags may be nil.
//
// Where the configuration is wrong the error is an [errors.Join] of [*Error],
// every problem at once, in the order of the lines. Files that the
// configuration names are not looked at: see [Config.CheckFiles].
func Load(path string, flags *pflag.FlagSet, environ []string) (*Config, error) {
	if path == "" {
		return build("", nil, flags, environ)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return build(path, data, flags, environ)
}

// LoadData is [Load] for data that came from a stream, with what name stands for in errors. No
// files of tests are beside it.
func LoadData(name string, data []byte, flags *pflag.FlagSet, environ []string) (*Config, error) {
	c, err := build(name, data, flags, environ)
	if c != nil {
		c.file = ""
	}
	return c, err
}

// Parse is [Load] for data that is in memory, without environment and flags.
// name stands for the file in errors.
func Parse(name string, data []byte) (*Config, error) {
	return build(name, data, nil, nil)
}

func build(name string, data []byte, flags *pflag.FlagSet, environ []string) (*Config, error) {
	l := layers{decoder: decoder{file: name, from: make(origins)}, viper: viper.New()}
	given := Default()
	l.decode(data, given)
	for _, add := range []func() error{
		func() error { return l.file(given) },
		func() error { return l.environment(environ) },
		func() error { return l.flags(flags) },
	} {
		if err := add(); err != nil {
			return nil, fmt.Errorf("layering the configuration: %w", err)
		}
	}
	c := Default()
	if err := l.result(c); err != nil {
		return nil, fmt.Errorf("layering the configuration: %w", err)
	}
	c.file, c.from, c.scalars, c.unread = name, l.from, l.texts, l.unread
	k := c.check()
	if err := join(append(l.errs, consequences(k.errs, l.blamed)...)); err != nil {
		return nil, err
	}
	c.compiled = &k.compiled
	return c, nil
}
