// Command xdsrelay is a caching relay for xDS: it stands between control planes
// and a fleet of proxies.
//
// The package holds the commands: their flags, error messages and hints. Other packages
// do the work: serve starts package relay, validate uses package config, watch uses
// internal/watch, explain uses internal/explain.
package main

import "github.com/xdsrelay/xdsrelay/cmd/internal/cli"

func main() { cli.Main(rootCommand()) }
