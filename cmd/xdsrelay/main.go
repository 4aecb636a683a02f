// Command xdsrelay is a caching relay for xDS: it stands between control planes
// and a fleet of proxies.
//
// The package holds the commands: their flags and what they say when something is
// wrong. What they do is in the rooms: serve starts package relay, validate asks
// package config, watch is internal/watch.
package main

import "github.com/xdsrelay/xdsrelay/cmd/internal/cli"

func main() { cli.Main(rootCommand()) }
