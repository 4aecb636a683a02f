// Package streams has the open streams of a server that is no server of discovery services: load reports, and
// streams that are served 1:1. It ends them all when the relay drains, and some when the configuration changes.
package streams
