package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/watch"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// apiType is the value of --api-type.
type apiType struct{ value watch.APIType }

// Set, String and Type carry out pflag.Value.
func (a *apiType) Set(s string) (err error) {
	a.value, err = watch.ParseAPIType(s)
	return err
}

func (a *apiType) String() string { return string(a.value) }

// Type is what help shows for the value.
func (*apiType) Type() string { return "variant" }

// apiTypeCompletions offers the variants with what they are.
func apiTypeCompletions() []string {
	describe := map[watch.APIType]string{
		watch.AggregatedDeltaGRPC: "incremental, one stream for all types",
		watch.AggregatedGRPC:      "state of the world, one stream for all types",
		watch.DeltaGRPC:           "incremental, one stream for each type",
		watch.GRPC:                "state of the world, one stream for each type",
		watch.REST:                "polling with JSON",
	}
	var all []string
	for _, a := range watch.APITypes() {
		all = append(all, cobra.CompletionWithDesc(string(a), describe[a]))
	}
	return all
}

// transport makes what leads to the server, and a function that ends it.
func (o *watchFlags) transport(address string) (watch.Transport, func(), error) {
	var files *credentials.TLSClient // nil: plain text
	if o.wantsTLS() {
		var err error
		if files, err = credentials.NewTLSClient(o.files); err != nil {
			return watch.Transport{}, nil, err
		}
	}
	closeFiles := func() {
		if files != nil {
			files.Close()
		}
	}
	if o.api.value == watch.REST {
		t, closeIdle := overHTTP(address, files)
		return t, func() { closeIdle(); closeFiles() }, nil
	}
	t, closeConn, err := overGRPC(address, files)
	if err != nil {
		closeFiles()
		return watch.Transport{}, nil, err
	}
	return t, func() { closeConn(); closeFiles() }, nil
}

// overGRPC makes a connection for streams.
func overGRPC(address string, files *credentials.TLSClient) (watch.Transport, func(), error) {
	var creds grpccredentials.TransportCredentials
	if files != nil {
		creds = files.Credentials()
	}
	// Seldom enough for servers that allow a ping in five minutes, gRPC's default.
	conn, err := xdsclient.Dial(address, creds, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute}))
	if err != nil {
		return watch.Transport{}, nil, err
	}
	return watch.Transport{Conn: conn}, func() { _ = conn.Close() }, nil
}

// overHTTP makes a client that polls. It has no time limit: a server may hold a
// poll for as long as nothing changes (REST-1).
func overHTTP(address string, files *credentials.TLSClient) (watch.Transport, func()) {
	dial := &net.Dialer{Timeout: 10 * time.Second}
	transport := &http.Transport{DialContext: dial.DialContext, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	scheme := "http://"
	if files != nil {
		scheme = "https://"
		transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			config, err := files.Config() // the files as they are now
			if err != nil {
				return nil, err
			}
			config.NextProtos = []string{"h2", "http/1.1"}
			secure := &tls.Dialer{NetDialer: dial, Config: config}
			return secure.DialContext(ctx, network, addr)
		}
	}
	client := &http.Client{Transport: transport}
	return watch.Transport{HTTP: client, URL: scheme + address}, client.CloseIdleConnections
}

// checkAddress takes host:port, and with gRPC whatever has a scheme of its.
func (o *watchFlags) checkAddress(address string) error {
	if strings.HasPrefix(address, "unix:") || strings.Contains(address, "://") {
		switch {
		case o.api.value == watch.REST:
			return fmt.Errorf("expected host:port with REST, got %q", address)
		case strings.HasPrefix(address, "unix:"), strings.Contains(address, ":///"):
			return nil
		}
	}
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return fmt.Errorf("expected host:port, got %q", address)
	}
	return nil
}

// impossible tells of a type that the variant has no way to ask for.
func impossible(err error) bool {
	_, ok := errors.AsType[*xdsclient.UnservedError](err)
	return ok
}
