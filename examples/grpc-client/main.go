// Command grpc-client asks a service for its health, and says which backend answered. It finds the backends over
// xDS, so its argument is the name of a Listener: grpc-client xds:///shop. GRPC_XDS_BOOTSTRAP names the bootstrap.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	_ "google.golang.org/grpc/xds" // for targets that begin with xds:
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: grpc-client xds:///NAME")
		os.Exit(2)
	}
	if err := ask(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(target string) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var backend peer.Peer
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, new(healthpb.HealthCheckRequest), grpc.Peer(&backend), grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	fmt.Printf("%s at %s is %s\n", target, backend.Addr, answer.GetStatus())
	return nil
}
