package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/fleet"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/watch"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// watchFlags are the flags of watch.
type watchFlags struct {
	api           apiType
	types, names  []string
	node          string
	payload, once bool
	timeout       time.Duration

	tls   bool
	files credentials.TLSClientConfig
}

func watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch ADDRESS --type TYPE… [--name NAME…]",
		Short: "Show what a relay or a control plane sends, change by change",
		Long: `Subscribe to resources like a client and print each change:

  + added     ~ changed     - removed or not existing
  = sent again     ! failed     ? sent without a request

A line without a sign is the summary of a response.

--api-type is the variant of the transport, with Envoy's names: incremental (DELTA)
or state of the world, with one stream for all types (AGGREGATED) or one per type,
or polling (REST: http://ADDRESS, or https with TLS). State-of-the-world responses
repeat unchanged resources. The command counts these and does not list them. If a
resource has no version, the command shows a digest of the content.

A type is a short name (lds, rds, srds, vhds, cds, eds, sds, rtds, ecds), a message
name or a type URL. Without names the command shows all resources that the server
chooses for the node. An xdstp:// name contains its type. The command asks for other
names with every --type.

--node is the node to present: an envoy.config.core.v3.Node in YAML or JSON, a
bootstrap of Envoy or gRPC, or a config_dump of Envoy's admin port. "-" is standard
input. Without it the command presents a node of its own.

The command never shows payloads of secrets. It blanks fields that Envoy's API
declares sensitive. It shows the contents of unknown types as base64.

` + exitCodes("the server refuses or does not answer"),
		Example: `  xdsrelay watch 127.0.0.1:18100 --type cds --type eds --name checkout
  xdsrelay watch 127.0.0.1:18100 --name 'xdstp://edge/envoy.config.cluster.v3.Cluster/shop/*'
  xdsrelay watch xds.example.com:443 --type lds --ca-file ca.pem --node node.yaml
  curl -s localhost:9901/config_dump | xdsrelay watch 127.0.0.1:18100 --type lds --node -
  xdsrelay watch 127.0.0.1:18100 --type lds --once --payload --output json
  xdsrelay watch 127.0.0.1:18100 --type cds --api-type AGGREGATED_GRPC`,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := watchFlags{api: apiType{watch.AggregatedDeltaGRPC}}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.types, "type", "t", nil, "resource `type`; repeatable")
	flags.StringArrayVarP(&o.names, "name", "n", nil, "resource `name`, xdstp:// glob or *; repeatable")
	flags.Var(&o.api, "api-type", "`variant` of the transport: AGGREGATED_DELTA_GRPC, AGGREGATED_GRPC, DELTA_GRPC, GRPC or REST")
	flags.StringVar(&o.node, "node", "", "`file` with the client's node, in YAML or JSON; - for standard input")
	flags.BoolVar(&o.payload, "payload", false, "show the contents of the resources")
	flags.BoolVar(&o.once, "once", false, "end when the server answered everything")
	cli.DurationVar(flags, &o.timeout, "timeout", "end after this `time`; an error with --once (0: never)")
	flags.BoolVar(&o.tls, "tls", false, "connect with TLS; the flags below imply it")
	flags.StringVar(&o.files.CAFile, "ca-file", "", "PEM `file` with trusted CAs (default the system's)")
	flags.StringVar(&o.files.CertFile, "cert-file", "", "PEM `file` with the client's certificate")
	flags.StringVar(&o.files.KeyFile, "key-file", "", "PEM `file` with the key of this certificate")
	flags.StringVar(&o.files.ServerName, "server-name", "", "`name` expected in the server's certificate (default the host)")
	flags.SortFlags = false
	cmd.MarkFlagsRequiredTogether("cert-file", "key-file")
	for _, name := range []string{"ca-file", "cert-file", "key-file"} {
		cli.Must(cmd.MarkFlagFilename(name, "pem", "crt", "key"))
	}
	cli.Must(cmd.MarkFlagFilename("node", "yaml", "yml", "json"))
	cli.Complete(cmd, "type", typeCompletions()...)
	cli.Complete(cmd, "name")
	cli.Complete(cmd, "api-type", apiTypeCompletions()...)
	output := cli.OutputFlag(cmd, "`format`: text, or json with one object per line")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, args []string) error {
		return o.run(cmd.Context(), args[0], watch.Format(*output), cmd.InOrStdin(), cmd.OutOrStdout())
	})
	return cmd
}

// typeCompletions offers the short names with their message names.
func typeCompletions() []string {
	var all []string
	for _, short := range keyer.ShortNames() {
		url, _ := keyer.TypeURL(short)
		all = append(all, cobra.CompletionWithDesc(short, url[strings.LastIndexByte(url, '.')+1:]))
	}
	return all
}

// run carries the command out.
func (o *watchFlags) run(ctx context.Context, address string, format watch.Format, in io.Reader, out io.Writer) error {
	if err := o.checkAddress(address); err != nil {
		return cli.Usage(err, "for a relay, use the address of server.listen")
	}
	subs, err := watch.Subscriptions(o.types, o.names)
	if err != nil {
		return cli.Usage(err, "add a type, for example --type cds")
	}
	node, err := o.readNode(in)
	if err != nil {
		return cli.Usage(fmt.Errorf("--node: %w", err), nodeHint)
	}
	transport, end, err := o.transport(address)
	if err != nil {
		return cli.Usage(err, "")
	}
	defer end()
	err = watch.Run(ctx, transport, out, watch.Options{
		Target: address, APIType: o.api.value, Subscriptions: subs, Node: node,
		Format: format, Color: cli.Colorful(out), Payload: o.payload, Once: o.once, Timeout: o.timeout, Hint: o.hint,
	})
	switch {
	case impossible(err):
		return cli.Usage(err, "--api-type "+string(watch.AggregatedDeltaGRPC)+" supports every type")
	case err != nil:
		code := cli.ExitFailure
		if unconnected(err) {
			code = cli.ExitUnreachable
		}
		return &cli.Error{Code: code, Err: err, Hint: o.hint(err)}
	}
	return nil
}

// unconnected reports whether there was no connection to the server, in the words of gRPC's client
// and of net/http: a server can be unavailable too, and says so in its own.
func unconnected(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return status.Code(err) == codes.Unavailable && (strings.Contains(text, "connection error: ") || strings.Contains(text, "Post \"http"))
}

func (o *watchFlags) wantsTLS() bool {
	f := o.files
	return o.tls || f.CAFile != "" || f.CertFile != "" || f.ServerName != ""
}

// hint gives the usual remedy for an error.
func (o *watchFlags) hint(err error) string {
	if _, late := errors.AsType[*watch.TimeoutError](err); late {
		return "some servers do not answer unknown names or types"
	}
	switch text := err.Error(); {
	case !o.wantsTLS() && (strings.Contains(text, "error reading server preface") || strings.Contains(text, "HTTP request to an HTTPS server")):
		return "the server seems to have TLS: add --tls, or the flags for its files"
	case o.wantsTLS() && (strings.Contains(text, "does not look like a TLS handshake") || strings.Contains(text, "HTTP response to HTTPS client")):
		return "the server has no TLS: leave out --tls and the flags for files"
	case strings.Contains(text, "signed by unknown authority"):
		return "give the CA of the server's certificate with --ca-file"
	case strings.Contains(text, "x509: certificate is ") || strings.Contains(text, "x509: cannot validate certificate"):
		return "the server's certificate is for another name: connect to that name, or give it with --server-name"
	case strings.Contains(text, "tls: certificate required"):
		return "the server wants a certificate of a CA that it trusts: give one with --cert-file and --key-file"
	case strings.Contains(text, "remote error: tls: "):
		return "the server refuses this client's certificate: check --cert-file and --key-file"
	}
	switch status.Code(err) {
	case codes.Unavailable:
		if o.wantsTLS() {
			return "is there a server with TLS at this address?"
		}
		return "is there a server at this address, and does it need TLS (--tls)?"
	case codes.Unimplemented:
		return "is this an xDS server that speaks " + o.api.String() + "? --api-type has other variants"
	case codes.Unauthenticated, codes.PermissionDenied:
		return "the server refuses this client: check --node, --cert-file and --key-file"
	default:
		return ""
	}
}

// readNode reads the node, or makes one that identifies this command.
func (o *watchFlags) readNode(in io.Reader) (*corev3.Node, error) {
	if o.node == "" {
		return &corev3.Node{
			Id: "xdsrelay-watch", Cluster: "xdsrelay-watch", UserAgentName: "xdsrelay",
			UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: thisBuild().Version},
		}, nil
	}
	return fleet.One(o.node, in)
}
