package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/config/bootstrap"
)

func bootstrapCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:       "bootstrap envoy|grpc --config FILE --node-id ID",
		Short:     "Make the bootstrap of an Envoy or a gRPC client",
		ValidArgs: []string{"envoy", "grpc"},
		Long: `Make the bootstrap of an Envoy or a gRPC client, from the relay's configuration: the
addresses, TLS, and the form that the control plane speaks.

The client goes to the relays. While all relays are away it goes to the control plane: a
fleet outlives its relays, and they can be taken away again. An Envoy has one cluster for
that, with two priorities. It returns to the relays within --return. A gRPC client has
the servers in a list, and goes on if it lacks a resource. If the upstream is files or
REST, clients cannot ask it, and the bootstrap has the relays only.

--relay gives the address of a relay, as clients see it. Without it, it is that of the
listener. The relay must be configured to serve the client: the command looks at no rules.

` + localExitCodes("the configuration is not usable"),
		Example: `  xdsrelay bootstrap envoy --config xdsrelay.yaml --node-id edge-1 --node-cluster edge > envoy.yaml
  xdsrelay bootstrap envoy -c xdsrelay.yaml --node-id edge-1 --relay xdsrelay-1:18100 --relay xdsrelay-2:18100
  xdsrelay bootstrap grpc -c xdsrelay.yaml --node-id checkout --ca-file ca.pem --cert-file c.pem --key-file c.key`,
		Args: cobra.MatchAll(arguments(1, 1), cobra.OnlyValidArgs),
	}
	file := &source{cmd: cmd}
	o := bootstrap.Options{Return: 10 * time.Minute}
	flags := cmd.Flags()
	flags.VarP(file, "config", "c", "`file` with the relay's configuration; - for standard input (default $"+config.ConfigVariable+")")
	flags.StringVar(&o.ID, "node-id", "", "`id` of the client's node")
	flags.StringVar(&o.Cluster, "node-cluster", "", "`cluster` of the client's node (default the id)")
	flags.StringArrayVar(&o.Relays, "relay", nil, "`address` of a relay: host:port or unix:///path; repeatable")
	flags.StringVar(&o.Listener, "listener", config.DefaultListenerName, "`name` of the relay's listener")
	flags.BoolVar(&o.Direct, "relays-only", false, "leave out the control plane")
	flags.StringVar(&o.CAFile, "ca-file", "", "PEM `file` with the CA of the relays, as the client reads it")
	flags.StringVar(&o.ServerName, "server-name", "", "`name` in the certificates of the relays (default the host of each); not for gRPC, which checks hosts")
	flags.StringVar(&o.PlaneCAFile, "control-plane-ca-file", "", "PEM `file` with the CA of the control plane (default as in the configuration)")
	flags.StringVar(&o.CertFile, "cert-file", "", "PEM `file` with the client's certificate")
	flags.StringVar(&o.KeyFile, "key-file", "", "PEM `file` with the key of this certificate")
	flags.StringVar(&o.Admin, "envoy-admin", "127.0.0.1:9901", "`address` of an Envoy's admin port")
	cli.DurationVar(flags, &o.Return, "return", "`time` after which an Envoy opens its stream anew (default 10m)")
	flags.SortFlags = false
	cmd.MarkFlagsRequiredTogether("cert-file", "key-file")
	cli.Must(cmd.MarkFlagRequired("node-id"))
	cli.Must(cmd.MarkFlagFilename("config", "yaml", "yml"))
	for _, name := range []string{"node-id", "node-cluster", "relay", "listener", "server-name", "envoy-admin", "return"} {
		cli.Complete(cmd, name)
	}
	cmd.RunE = cli.Action(func(cmd *cobra.Command, args []string) error {
		if err := file.find(); err != nil {
			return err
		}
		if o.Cluster == "" {
			o.Cluster = o.ID
		}
		cfg, err := file.load()
		if err != nil {
			return unusable(err, keysHint)
		}
		return makeBootstrap(cmd, cfg, o, args[0])
	})
	return cmd
}

func makeBootstrap(cmd *cobra.Command, cfg *config.Config, o bootstrap.Options, kind string) error {
	if o.Return < time.Second {
		return cli.Usage(fmt.Errorf("--return: expected 1s or more, got %v", o.Return), "")
	}
	b, err := bootstrap.New(cfg, o)
	if err != nil {
		return cli.Usage(err, bootstrapHint(err))
	}
	form := b.Envoy
	if kind == "grpc" {
		form = b.GRPC
	}
	text, err := form()
	if err != nil {
		return cli.Usage(err, bootstrapHint(err))
	}
	if b.Note != "" {
		if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", b.Note); err != nil {
			return err
		}
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// bootstrapHint names the flag that an error is about.
func bootstrapHint(err error) string {
	switch {
	case errors.Is(err, bootstrap.ErrAdmin):
		return "--envoy-admin takes host:port"
	case errors.Is(err, bootstrap.ErrRelays):
		return "--relay takes the address of a relay, as clients see it"
	case errors.Is(err, bootstrap.ErrCA):
		return "--ca-file takes the CA of server.tls, as the client reads it"
	case errors.Is(err, bootstrap.ErrCertificate):
		return "--cert-file and --key-file take the client's own, as the client reads them"
	case errors.Is(err, bootstrap.ErrPlane):
		return "--relays-only leaves it out"
	default:
		return "--listener takes the name of one of server.listeners, or default"
	}
}
