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
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/explain"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/fleet"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/watch"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// explainFlags are the flags of explain, without the configuration.
type explainFlags struct {
	node, nodes string
	types       []string
	name        string
	named       bool // --name is given; an empty name is an error
	peer        peerFlags
}

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain --config FILE (--node FILE | --nodes DIR)",
		Short: "Show which clients share by the aggregation rules, and why",
		Long: `Explain the aggregation of a client: the result of each aggregation rule, the scope
and its parts, the upstream, and the node that the control plane sees if the client
is the first of its scope. The command starts nothing and uses no network.

--node is the client's node: an envoy.config.core.v3.Node in YAML or JSON, a
bootstrap of Envoy or gRPC, or a config_dump of Envoy's admin port. "-" is standard
input. Without --type the command lists all usual types. A --name with xdstp://
contains its type. All clients share this name without rules, and the command shows
its upstream.

--nodes is a recorded fleet: a folder of such files, or one file with a list, YAML
documents or JSON Lines. The command shows the number of scopes, the largest scopes,
the scopes with one client, the decisions of each rule, the clients for which a rule
fails, and the fields that differ between clients of a scope and that no rule
mentions.

The command also shows which rules of access.verify let the client present its node,
and what access.rules say of the types, or of the --name. With --nodes these rules play
no part: recorded nodes have no certificates of their own.

--peer-cert is the client's certificate. --peer (a SPIFFE ID) and the similar flags
give the names of a certificate instead. Without these flags the client has no
certificate.

` + localExitCodes("the configuration is not usable, a rule fails for a client, the --name is denied, or a client is refused or not readable"),
		Example: `  xdsrelay explain --config xdsrelay.yaml --node node.yaml
  xdsrelay explain --config xdsrelay.yaml --node node.yaml --type cds --peer spiffe://edge/web
  xdsrelay explain --config xdsrelay.yaml --node node.yaml --type eds --name checkout --output json
  curl -s localhost:9901/config_dump | xdsrelay explain --config xdsrelay.yaml --node -
  xdsrelay explain --config xdsrelay.yaml --nodes fleet/ --type lds --type cds`,
		Args: noArguments,
	}
	file := configFlags(cmd)
	o := new(explainFlags)
	flags := cmd.Flags()
	flags.StringVar(&o.node, "node", "", "`file` with the client's node, in YAML or JSON; - for standard input")
	flags.StringVar(&o.nodes, "nodes", "", "`folder` or file with the nodes of a fleet; - for standard input")
	flags.StringArrayVarP(&o.types, "type", "t", nil, "resource `type`; repeatable (default all usual types; cds with --nodes)")
	flags.StringVarP(&o.name, "name", "n", "", "resource `name`, or * for all resources")
	o.peer.add(cmd)
	cmd.MarkFlagsMutuallyExclusive("node", "nodes")
	cli.Must(cmd.MarkFlagFilename("node", "yaml", "yml", "json"))
	cli.Complete(cmd, "type", typeCompletions()...)
	cli.Complete(cmd, "name")
	output := cli.OutputFlag(cmd, "`format` of the result: text or json")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		o.named = cmd.Flags().Changed("name")
		if err := file.find(); err != nil {
			return err
		}
		if o.node == "" && o.nodes == "" {
			return cli.Usage(errors.New("there is no node: expected --node or --nodes"), nodeHint)
		}
		if file.path == stdin && (o.node == stdin || o.nodes == stdin) {
			return cli.Usage(errors.New("both the configuration and the nodes are to come from standard input"), "name a file for one of them")
		}
		cfg, err := file.load()
		if err != nil {
			return unusable(err, "xdsrelay validate checks a configuration in detail")
		}
		return o.run(cmd.Context(), cfg, *output, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
	})
	return cmd
}

// nodeHint says what a file of --node holds.
const nodeHint = "a node has the fields of envoy.config.core.v3.Node; a bootstrap or a config_dump may be around it"

// streams are the streams of a command.
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
		return cli.Usage(err, "--peer-cert takes a certificate, --peer-token a token, --peer a SPIFFE ID such as spiffe://edge/web")
	}
	types, name, err := o.asked()
	if err != nil {
		return cli.Usage(err, "--type takes a short name such as cds, a message name or a type URL")
	}
	if o.nodes != "" {
		if keyer.IsXDSTP(o.name) {
			return cli.Usage(errors.New("--nodes with an xdstp name: all clients share this name"), "--node shows the upstream of the name")
		}
		return o.survey(ctx, e, peer, types, name, format, std)
	}
	node, err := fleet.One(o.node, std.in)
	switch {
	case errors.Is(err, fleet.ErrMore):
		return cli.Usage(fmt.Errorf("--node: %w", err), "--nodes takes a fleet")
	case err != nil:
		return cli.Usage(fmt.Errorf("--node: %w", err), nodeHint)
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

// client explains an xdstp name by its authority, and everything else by the rules.
func client(e *explain.Explainer, node *corev3.Node, peer keyer.Peer, types []string, name *string) (*explain.Client, error) {
	if name == nil || !keyer.IsXDSTP(*name) {
		return e.Client(node, peer, types, name), nil
	}
	parsed, err := keyer.Parse(*name)
	if err != nil {
		return nil, err
	}
	return e.Name(node, peer, parsed, *name), nil
}

// asked gives the types, by URL, and the name.
func (o *explainFlags) asked() (typeURLs []string, name *string, err error) {
	if o.named {
		if o.name == "" {
			return nil, nil, errors.New("--name is empty: use * for all resources")
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
			err = fmt.Errorf("the name contains its type, and the type is not %s", strings.Join(types, ", "))
		}
		return nil, name, err
	}
	subs, err := watch.Subscriptions(types, nil)
	for _, s := range subs {
		typeURLs = append(typeURLs, s.TypeURL)
	}
	return typeURLs, name, err
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
		return &cli.Error{Code: cli.ExitUsage, Err: errors.New("there is no node"), Hint: "--nodes takes a folder of node files, or a file with nodes"}
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
