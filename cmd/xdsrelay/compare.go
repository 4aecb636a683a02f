package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/compare"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/fleet"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/watch"
	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// compareFlags are the flags of compare.
type compareFlags struct {
	relay, plane watchFlags
	nodes        string
	types, names []string
	parallel     int
	timeout      time.Duration
}

func compareCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare CONTROL-PLANE RELAY --nodes FLEET",
		Short: "Compare what a control plane and a relay give to each node of a fleet",
		Long: `Ask a control plane and a relay as each node of a recorded fleet, and show where their
answers differ, by node, type and name. Try it before a proxy moves to the relay, and in CI.

The command asks as an Envoy does: for all Listeners and Clusters, and then for the routes,
endpoints, secrets and extensions that they refer to. --type and --name begin with others:
gRPC clients ask for a Listener by its name.

--nodes is a folder with node files, or one file with a list, YAML documents or JSON Lines,
as for explain: an envoy.config.core.v3.Node each, or a bootstrap or config_dump around it.

Payloads are compared, and versions with the incremental variants. Where there is a
difference the command asks both once more, because a control plane may change meanwhile.
The relay's rules see the certificate of this command for each node. The relay gives secrets only
where a rule allows it.

` + exitCodes("there are differences, or a server refuses or does not answer"),
		Example: `  xdsrelay compare control-plane:5678 127.0.0.1:18100 --nodes fleet/
  xdsrelay compare istiod:15010 127.0.0.1:18100 --nodes fleet.jsonl --output json
  xdsrelay nodes --admin relay:19100 | xdsrelay compare cp:5678 relay:18100 --nodes -
  xdsrelay compare cp:5678 relay:18100 --nodes fleet/ --type lds --name checkout`,
		Args:              arguments(2, 2),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := &compareFlags{relay: watchFlags{api: apiType{watch.AggregatedDeltaGRPC}}, timeout: 20 * time.Second}
	flags := cmd.Flags()
	flags.StringVar(&o.nodes, "nodes", "", "`folder` or file with the nodes of the fleet; - for standard input")
	flags.StringArrayVarP(&o.types, "type", "t", []string{"lds", "cds"}, "resource `type` to begin with; repeatable")
	flags.StringArrayVarP(&o.names, "name", "n", nil, "resource `name` to begin with (default all); repeatable")
	flags.Var(&o.relay.api, "api-type", "`variant` of the transport, of both: AGGREGATED_DELTA_GRPC, AGGREGATED_GRPC, DELTA_GRPC or GRPC")
	flags.IntVar(&o.parallel, "parallel", 32, "`number` of nodes at a time")
	cli.DurationVar(flags, &o.timeout, "timeout", "`time` that both have to answer a node")
	for _, server := range []struct {
		flags        *watchFlags
		prefix, name string
	}{{&o.relay, "", "relay"}, {&o.plane, "control-plane-", "control plane"}} {
		f := server.flags
		flags.BoolVar(&f.tls, server.prefix+"tls", false, "the "+server.name+" has TLS; the flags below imply it")
		flags.StringVar(&f.files.CAFile, server.prefix+"ca-file", "", "PEM `file` with CAs of the "+server.name+" (default the system's)")
		flags.StringVar(&f.files.CertFile, server.prefix+"cert-file", "", "PEM `file` with the certificate to show the "+server.name)
		flags.StringVar(&f.files.KeyFile, server.prefix+"key-file", "", "PEM `file` with the key of this certificate")
		flags.StringVar(&f.files.ServerName, server.prefix+"server-name", "", "`name` expected in the certificate of the "+server.name+" (default the host)")
		cmd.MarkFlagsRequiredTogether(server.prefix+"cert-file", server.prefix+"key-file")
	}
	flags.SortFlags = false
	cli.Must(cmd.MarkFlagRequired("nodes"))
	cli.Complete(cmd, "type", typeCompletions()...)
	cli.Complete(cmd, "name")
	cli.Complete(cmd, "api-type", apiTypeCompletions()...)
	output := cli.OutputFlag(cmd, "`format` of the result: text or json")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, args []string) error {
		o.plane.api = o.relay.api
		return o.run(cmd.Context(), args[0], args[1], *output, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
	})
	return cmd
}

// comparison is the result, as JSON.
type comparison struct {
	Nodes       int                  `json:"nodes"`
	Equal       int                  `json:"equal"` // nodes
	Resources   int                  `json:"resources"`
	Differences []compare.Difference `json:"differences"`
	Errors      []string             `json:"errors"`
}

func (o *compareFlags) run(ctx context.Context, plane, relay, format string, std streams) error {
	if o.relay.api.value == watch.REST {
		return cli.Usage(errors.New("--api-type: polls cannot be compared"), "the relay serves all variants: compare with another one of the control plane")
	}
	subs, err := watch.Subscriptions(o.types, o.names)
	if err != nil {
		return cli.Usage(err, "")
	}
	nodes, err := o.fleet(std)
	if err != nil {
		return cli.Usage(err, nodeHint)
	}
	toPlane, endPlane, err := o.plane.connect(plane)
	if err != nil {
		return err
	}
	defer endPlane()
	toRelay, endRelay, err := o.relay.connect(relay)
	if err != nil {
		return err
	}
	defer endRelay()
	options := compare.Options{
		ControlPlane: toPlane, Relay: toRelay, APIType: o.relay.api.value, Subscriptions: subs, Timeout: o.timeout, Parallel: o.parallel,
	}
	c := comparison{Differences: []compare.Difference{}, Errors: []string{}}
	hint := "" // of a server that cannot be reached
	compare.Nodes(ctx, nodes, options, func(r compare.Result) {
		c.Nodes++
		c.Resources += r.Resources
		c.Differences = append(c.Differences, r.Differences...)
		err := r.Err()
		switch {
		case err != nil:
			c.Errors = append(c.Errors, r.Node+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
			if unconnected(err) {
				hint = o.hint(&r)
			}
		case len(r.Differences) == 0:
			c.Equal++
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	// Nodes are asked at the same time. Two runs are to print the same.
	slices.SortStableFunc(c.Differences, func(a, b compare.Difference) int { return strings.Compare(a.Node, b.Node) })
	slices.Sort(c.Errors)
	if format == cli.FormatJSON {
		err = cli.PrintJSON(std.out, c)
	} else {
		err = c.text(std.out)
	}
	switch {
	case err != nil:
		return err
	case hint != "":
		return &cli.Error{Code: cli.ExitUnreachable, Err: errors.New("a server cannot be reached"), Hint: hint}
	case c.Equal < c.Nodes:
		return &cli.Error{Code: cli.ExitFailure}
	}
	return nil
}

// addressesHint is for addresses that may be in the wrong order.
const addressesHint = "the addresses are those of the control plane and of the relay, in this order"

// hint gives the usual remedy where a server cannot be reached, with the flags of this server.
func (o *compareFlags) hint(r *compare.Result) string {
	if unconnected(r.PlaneErr) {
		return "control plane: " + strings.ReplaceAll(o.plane.hint(r.PlaneErr), "--", "--control-plane-") + "; " + addressesHint
	}
	return "relay: " + o.relay.hint(r.RelayErr) + "; " + addressesHint
}

// connect makes what leads to one of the servers, and a function that ends it.
func (o *watchFlags) connect(address string) (watch.Transport, func(), error) {
	if err := o.checkAddress(address); err != nil {
		return watch.Transport{}, nil, cli.Usage(err, addressesHint)
	}
	transport, end, err := o.transport(address)
	if err != nil {
		return transport, nil, cli.Usage(err, "")
	}
	return transport, end, nil
}

// fleet reads the nodes. Those that cannot be read are an error: they would be left out.
func (o *compareFlags) fleet(std streams) (nodes []*corev3.Node, err error) {
	for node, bad := range fleet.Read(o.nodes, std.in) {
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		nodes = append(nodes, node.Node)
	}
	if err == nil && len(nodes) == 0 {
		err = errors.New("--nodes: there is no node")
	}
	return nodes, err
}

func (c *comparison) text(out io.Writer) error {
	for _, d := range c.Differences {
		if _, err := fmt.Fprintf(out, "%s  %s  %s  %s\n", logs.Printable(d.Node), logs.Printable(d.Type), logs.Printable(d.Name), logs.Printable(d.What)); err != nil {
			return err
		}
	}
	for _, e := range c.Errors {
		if _, err := fmt.Fprintln(out, logs.PrintableLines(e)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "equal in %d of %s, %s of the control plane, %s\n",
		c.Equal, plural(c.Nodes, "node"), plural(c.Resources, "resource"), plural(len(c.Differences), "difference"))
	return err
}
