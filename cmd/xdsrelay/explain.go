package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/explain"
	"github.com/xdsrelay/xdsrelay/internal/fleet"
	"github.com/xdsrelay/xdsrelay/internal/watch"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// explainFlags is what explain is told beside the configuration.
type explainFlags struct {
	node, nodes string
	types       []string
	name        string
	named       bool // there is a name: it may be empty, which is wrong
	peer        peerFlags
}

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain --config FILE (--node FILE | --nodes DIR)",
		Short: "Show who shares what by the aggregation rules, and why",
		Long: `Say what becomes of a client: what each aggregation rule says of it, the scope
and its parts, the upstream, and the node that the control plane sees if the
client is the first of its scope. Nothing is started or asked over a network.

--node has the client's node, an envoy.config.core.v3.Node in YAML or JSON; "-" is
standard input. A bootstrap of Envoy or gRPC does as well, and so does a
config_dump of Envoy's admin port. Without --type all usual types are listed.
An xdstp:// --name tells its type; rules play no part in it, and its upstream is
shown.

--nodes surveys a recorded fleet: a folder of such files, or one file with a list,
YAML documents or JSON Lines. It shows how many scopes result, the largest, those
with one client, what each rule decides, for whom one fails, and in which fields
clients differ that share a scope and that no rule mentions.

Who the client is to TLS is --peer-cert, or a SPIFFE ID (--peer) and the other
names of a certificate. Without these it has no certificate.

It exits with 0 if every client is served by a rule or by aggregation.otherwise,
with 1 if a rule fails for one, one is refused or could not be read, and with 2 if
nothing could be explained.`,
		Example: `  xdsrelay explain --config xdsrelay.yaml --node node.yaml
  xdsrelay explain --config xdsrelay.yaml --node node.yaml --type cds --peer spiffe://edge/web
  xdsrelay explain --config xdsrelay.yaml --node node.yaml --type eds --name checkout --output json
  curl -s localhost:9901/config_dump | xdsrelay explain --config xdsrelay.yaml --node -
  xdsrelay explain --config xdsrelay.yaml --nodes fleet/ --type lds --type cds`,
		Args: cobra.NoArgs,
	}
	file := configFlags(cmd)
	o := new(explainFlags)
	flags := cmd.Flags()
	flags.StringVar(&o.node, "node", "", "`file` with the client's node, in YAML or JSON; - for standard input")
	flags.StringVar(&o.nodes, "nodes", "", "`folder` or file with the nodes of a fleet; - for standard input")
	flags.StringArrayVarP(&o.types, "type", "t", nil, "resource `type`; may be given several times (default all usual types; cds with --nodes)")
	flags.StringVarP(&o.name, "name", "n", "", "resource `name`, or * for all there are")
	o.peer.add(cmd)
	cmd.MarkFlagsMutuallyExclusive("node", "nodes")
	cmd.MarkFlagsOneRequired("node", "nodes")
	cli.Must(cmd.MarkFlagFilename("node", "yaml", "yml", "json"))
	cli.Complete(cmd, "type", typeCompletions()...)
	cli.Complete(cmd, "name")
	output := cli.OutputFlag(cmd, "`format` of the result: text or json")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		o.named = cmd.Flags().Changed("name")
		cfg, err := load(cmd, *file)
		if err != nil {
			return cli.Usage(err, "xdsrelay validate says more of a configuration")
		}
		return o.run(cmd.Context(), cfg, *output, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
	})
	return cmd
}

// streams are a command's.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run carries the command out.
func (o *explainFlags) run(ctx context.Context, cfg *config.Config, format string, std streams) error {
	e, err := explain.New(cfg)
	if err != nil {
		return cli.Usage(err, "")
	}
	peer, err := o.peer.identity()
	if err != nil {
		return cli.Usage(err, "--peer-cert takes a certificate, --peer a SPIFFE ID such as spiffe://edge/web")
	}
	types, name, err := o.asked()
	if err != nil {
		return cli.Usage(err, "--type takes a short name such as cds, a message name or a type URL")
	}
	if o.nodes != "" {
		if keyer.IsXDSTP(o.name) {
			return cli.Usage(errors.New("all clients share an xdstp name: there is nothing to survey"), "--node explains who serves it")
		}
		return o.survey(ctx, e, peer, types, name, format, std)
	}
	node, err := o.one(std.in)
	if err != nil {
		return cli.Usage(fmt.Errorf("--node: %w", err), "the fields are those of envoy.config.core.v3.Node")
	}
	c, err := client(e, node, peer, types, name)
	if err != nil {
		return cli.Usage(err, "")
	}
	if format == cli.FormatJSON {
		err = cli.PrintJSON(std.out, c)
	} else {
		err = c.Text(std.out, cli.Colorful(std.out))
	}
	if err == nil && !c.Served() {
		return &cli.Error{Code: cli.ExitFailure}
	}
	return err
}

// client explains a name that is an xdstp name by its authority, and what else there is
// by the rules.
func client(e *explain.Explainer, node *corev3.Node, peer keyer.Peer, types []string, name *string) (*explain.Client, error) {
	if name == nil || !keyer.IsXDSTP(*name) {
		return e.Client(node, peer, types, name), nil
	}
	parsed, err := keyer.Parse(*name)
	if err != nil {
		return nil, err
	}
	return e.Name(node, parsed, *name), nil
}

// asked gives the types, by URL, and the name.
func (o *explainFlags) asked() (typeURLs []string, name *string, err error) {
	if o.named {
		if o.name == "" {
			return nil, nil, errors.New("--name is empty: * stands for all there are")
		}
		name = &o.name
	}
	types := o.types
	switch {
	case len(types) > 0 || keyer.IsXDSTP(o.name):
	case o.nodes != "":
		types = []string{"cds"}
	default:
		types = keyer.ShortNames()
	}
	if keyer.IsXDSTP(o.name) {
		subs, err := watch.Subscriptions(types, []string{o.name})
		if err == nil && len(subs) > 1 {
			err = fmt.Errorf("the name tells its type: it is not of %s", strings.Join(types, ", "))
		}
		return nil, name, err
	}
	subs, err := watch.Subscriptions(types, nil)
	for _, s := range subs {
		typeURLs = append(typeURLs, s.TypeURL)
	}
	return typeURLs, name, err
}

// one reads the node of --node.
func (o *explainFlags) one(in io.Reader) (*corev3.Node, error) {
	var one *corev3.Node
	for node, err := range fleet.Read(o.node, in) {
		switch {
		case err != nil:
			return nil, err
		case one != nil:
			return nil, fmt.Errorf("%s:%d: there is more than one node: --nodes surveys a fleet", node.File, node.Line)
		}
		one = node.Node
	}
	return one, nil
}

// listedAsJSON bounds the lists of a survey. Totals are complete all the same.
const listedAsJSON = 1000

func (o *explainFlags) survey(ctx context.Context, e *explain.Explainer, peer keyer.Peer, types []string, name *string, format string, std streams) error {
	survey, bad := e.Fleet(ctx, o.nodes, std.in, std.err, peer, types, name)
	if survey == nil {
		return bad
	}
	r := survey.Result(listedAsJSON)
	var err error
	switch {
	case r.Clients == 0 && bad != nil:
		return &cli.Error{Code: cli.ExitUsage, Err: errors.New("there is no node to look at"), Hint: "--nodes takes a folder of node files, or a file with nodes"}
	case format == cli.FormatJSON:
		err = cli.PrintJSON(std.out, r)
	default:
		err = explain.FleetText(std.out, r, cli.Colorful(std.out))
	}
	if err = cmp.Or(bad, err); err == nil && len(r.Failures)+len(r.Refusals) > 0 {
		return &cli.Error{Code: cli.ExitFailure}
	}
	return err
}
