// Command xdsrelay is a caching relay for xDS: it stands between control planes
// and a fleet of proxies.
//
// The package holds the commands: their flags, error messages and hints. Other packages
// do the work: serve starts package relay, validate uses package config, watch uses
// cmd/xdsrelay/internal/watch, explain uses cmd/xdsrelay/internal/explain.
package main

import (
	"io"
	"os"

	"google.golang.org/grpc/grpclog"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
)

func main() {
	// gRPC writes its errors to standard error by itself: clients can provoke some of them,
	// and each waits while nobody reads (LIM-4). What matters of them the relay logs.
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" {
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	}
	cli.Main(rootCommand())
}
