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
	"github.com/xdsrelay/xdsrelay/internal/nodefile"
	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
	"github.com/xdsrelay/xdsrelay/internal/watch"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// watchFlags is what watch is told beside the address.
type watchFlags struct {
	api           apiType
	types, names  []string
	node          string
	payload, once bool
	timeout       time.Duration

	tls   bool
	files tlsfiles.ClientConfig
}

func watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch ADDRESS --type TYPE… [--name NAME…]",
		Short: "Show what a relay or a control plane sends, change by change",
		Long: `Follow resources like a client would and print each change: + added, ~ changed,
- removed or not existing, = sent again, ! failed, ? sent without having been
asked for. A line without a sign sums a response up.

--api-type says which variant of the transport is spoken, in Envoy's words:
incremental (DELTA) or state of the world, over one stream for all types
(AGGREGATED) or one for each, or polling (REST, of http://ADDRESS, or https with
TLS). What state-of-the-world responses repeat is counted and not listed, and a
version that they do not give is a digest of the content.

A type is a short name (lds, rds, srds, vhds, cds, eds, sds, rtds, ecds), a
message name or a type URL. Without names everything is shown that the server
chooses for the node. An xdstp:// name holds its type and is asked of that only;
other names are asked of every --type.

Payloads of secrets are never shown, and fields that Envoy's API declares
sensitive are blanked out; what is inside of a type unknown to this program is
shown as base64.`,
		Example: `  xdsrelay watch 127.0.0.1:18000 --type cds --type eds --name checkout
  xdsrelay watch 127.0.0.1:18000 --name 'xdstp://edge/envoy.config.cluster.v3.Cluster/shop/*'
  xdsrelay watch xds.example.com:443 --type lds --ca-file ca.pem --node node.yaml
  xdsrelay watch 127.0.0.1:18000 --type lds --once --payload --output json
  xdsrelay watch 127.0.0.1:18000 --type cds --api-type AGGREGATED_GRPC`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := watchFlags{api: apiType{watch.AggregatedDeltaGRPC}}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.types, "type", "t", nil, "resource `type`; may be given several times")
	flags.StringArrayVarP(&o.names, "name", "n", nil, "resource `name`, xdstp:// glob or *; may be given several times")
	flags.Var(&o.api, "api-type", "`variant` of the transport: AGGREGATED_DELTA_GRPC, AGGREGATED_GRPC, DELTA_GRPC, GRPC or REST")
	flags.StringVar(&o.node, "node", "", "`file` with the node to present, in YAML or JSON")
	flags.BoolVar(&o.payload, "payload", false, "show what the resources hold")
	flags.BoolVar(&o.once, "once", false, "end when everything asked for was answered")
	flags.DurationVar(&o.timeout, "timeout", 0, "end after this `time`; with --once that is an error (0: never)")
	flags.BoolVar(&o.tls, "tls", false, "connect with TLS; the flags below imply it")
	flags.StringVar(&o.files.CAFile, "ca-file", "", "PEM `file` with the CAs to trust (default the system's)")
	flags.StringVar(&o.files.CertFile, "cert-file", "", "PEM `file` with the certificate to present")
	flags.StringVar(&o.files.KeyFile, "key-file", "", "PEM `file` with its key")
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
		return o.run(cmd.Context(), args[0], watch.Format(*output), cmd.OutOrStdout())
	})
	return cmd
}

// typeCompletions offers the short names with what they stand for.
func typeCompletions() []string {
	var all []string
	for _, short := range keyer.ShortNames() {
		url, _ := keyer.TypeURL(short)
		all = append(all, cobra.CompletionWithDesc(short, url[strings.LastIndexByte(url, '.')+1:]))
	}
	return all
}

// run carries the command out.
func (o *watchFlags) run(ctx context.Context, address string, format watch.Format, out io.Writer) error {
	if err := o.checkAddress(address); err != nil {
		return cli.Usage(err, "the address of a relay is its server.listen")
	}
	subs, err := watch.Subscriptions(o.types, o.names)
	if err != nil {
		return cli.Usage(err, "--type says what to watch: --type cds, for instance")
	}
	node, err := o.readNode()
	if err != nil {
		return cli.Usage(fmt.Errorf("--node: %w", err), "the fields are those of envoy.config.core.v3.Node")
	}
	transport, end, err := o.transport(address)
	if err != nil {
		return cli.Usage(err, "")
	}
	defer end()
	err = watch.Run(ctx, transport, out, watch.Options{
		Target: address, APIType: o.api.value, Subscriptions: subs, Node: node,
		Format: format, Color: cli.Colorful(out), Payload: o.payload, Once: o.once, Timeout: o.timeout,
	})
	switch {
	case impossible(err):
		return cli.Usage(err, "with --api-type "+string(watch.AggregatedDeltaGRPC)+" every type can be asked for")
	case err != nil:
		return &cli.Error{Code: cli.ExitFailure, Err: err, Hint: o.hint(err)}
	}
	return nil
}

func (o *watchFlags) wantsTLS() bool {
	f := o.files
	return o.tls || f.CAFile != "" || f.CertFile != "" || f.ServerName != ""
}

// hint says what usually helps.
func (o *watchFlags) hint(err error) string {
	if _, late := errors.AsType[*watch.TimeoutError](err); late {
		return "some servers say nothing of names that they do not know, or of types that they do not serve"
	}
	switch status.Code(err) {
	case codes.Unavailable:
		if o.wantsTLS() {
			return "is a server listening there, and with TLS?"
		}
		return "is a server listening there, and does it want TLS (--tls)?"
	case codes.Unimplemented:
		return "is this an xDS server that speaks " + o.api.String() + "? --api-type has other variants"
	case codes.Unauthenticated, codes.PermissionDenied:
		return "the server refuses this client: look at --node, --cert-file and --key-file"
	default:
		return ""
	}
}

// readNode reads the node, or makes one that says who is asking.
func (o *watchFlags) readNode() (*corev3.Node, error) {
	if o.node == "" {
		return &corev3.Node{
			Id: "xdsrelay-watch", Cluster: "xdsrelay-watch", UserAgentName: "xdsrelay",
			UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: thisBuild().Version},
		}, nil
	}
	return nodefile.Read(o.node)
}
