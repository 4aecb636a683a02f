package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
)

// initFlags are the flags of init.
type initFlags struct {
	file, listen, admin  string
	planes               []string
	path, api, otherwise string
	certs, cache         string
	peers                []string
	peersListen          string
}

func initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first configuration, with comments",
		Long: `Write a first configuration, with comments. Without --control-plane and --path the command
asks, if it runs on a terminal. The result is checked as validate checks it, without files.

--certs is a folder with the files that "xdsrelay dev-certs" makes, or with your own files
of these names. Clients need certificates then.

--peer gives the address of another relay, for the time when the control plane is away.
Relays know each other by the certificates of --certs.

` + localExitCodes("the file exists, or the configuration would not be valid"),
		Example: `  xdsrelay init --control-plane 127.0.0.1:5678 > xdsrelay.yaml
  xdsrelay init --path resources/ --otherwise share --file xdsrelay.yaml
  xdsrelay init --control-plane cp:5678 --certs certs --cache-dir /var/lib/xdsrelay \
      --peer relay-2:18102 --peers-listen :18102`,
		Args: noArguments,
	}
	o := new(initFlags)
	flags := cmd.Flags()
	flags.StringVar(&o.file, "file", "", "`file` to write (default standard output)")
	flags.StringArrayVar(&o.planes, "control-plane", nil, "`address` of a control plane, host:port; repeatable, in order of priority")
	flags.StringVar(&o.path, "path", "", "`folder` or file with resources, in place of a control plane")
	flags.StringVar(&o.api, "api-type", string(config.AggregatedDeltaGRPC), "`variant` that the control plane speaks: AGGREGATED_DELTA_GRPC, AGGREGATED_GRPC, DELTA_GRPC, GRPC or REST")
	flags.StringVar(&o.otherwise, "otherwise", string(config.Isolate), "`sharing` of clients: isolate (each node has its own stream) or share")
	flags.StringVar(&o.listen, "listen", config.Default().Server.Listen, "`address` for clients")
	flags.StringVar(&o.admin, "admin-listen", config.Default().Admin.Listen, "`address` for operators")
	flags.StringVar(&o.certs, "certs", "", "`folder` with certificates, as dev-certs makes them (default plaintext)")
	flags.StringVar(&o.cache, "cache-dir", "", "`folder` to keep resources in, for the next start (default none)")
	flags.StringArrayVar(&o.peers, "peer", nil, "`address` of another relay, host:port; repeatable; needs --certs")
	flags.StringVar(&o.peersListen, "peers-listen", "", "`address` where other relays ask this one; needs --certs")
	flags.SortFlags = false
	cmd.MarkFlagsMutuallyExclusive("control-plane", "path")
	cmd.MarkFlagsRequiredTogether("peer", "peers-listen")
	cli.Complete(cmd, "api-type", apiTypeCompletions()...)
	cli.Complete(cmd, "otherwise", string(config.Isolate), string(config.Share))
	for _, name := range []string{"control-plane", "listen", "admin-listen", "peer", "peers-listen"} {
		cli.Complete(cmd, name)
	}
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		if len(o.planes) == 0 && o.path == "" {
			in, ok := cmd.InOrStdin().(*os.File)
			if !ok || !term.IsTerminal(int(in.Fd())) {
				return cli.Usage(errors.New("expected --control-plane or --path"), "on a terminal the command asks")
			}
			if err := o.ask(in, cmd.ErrOrStderr()); err != nil {
				return err
			}
		}
		if len(o.peers) > 0 && o.certs == "" {
			return cli.Usage(errors.New("--peer needs --certs: relays know each other by certificates"), "xdsrelay dev-certs makes some")
		}
		return o.write(cmd.OutOrStdout())
	})
	return cmd
}

// ask asks for what most relays differ in.
func (o *initFlags) ask(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for _, q := range []struct {
		question string
		answer   *string
	}{
		{"Address of the control plane, host:port (nothing for files)", nil},
		{"Folder with resources", &o.path},
		{"Variant that the control plane speaks", &o.api},
		{"Does it send the same resources to every node? Then they can share. isolate or share", &o.otherwise},
		{"Address for clients", &o.listen},
	} {
		if q.answer == &o.path && len(o.planes) > 0 || q.answer == &o.api && o.path != "" {
			continue
		}
		if q.answer != nil && *q.answer != "" {
			q.question += " [" + *q.answer + "]"
		}
		if _, err := fmt.Fprintf(out, "%s: ", q.question); err != nil {
			return err
		}
		if !lines.Scan() {
			return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
		}
		switch text := strings.TrimSpace(lines.Text()); {
		case text == "":
		case q.answer == nil:
			o.planes = []string{text}
		default:
			*q.answer = text
		}
	}
	return nil
}

// write checks the configuration and writes it.
func (o *initFlags) write(out io.Writer) error {
	text := o.text()
	if _, err := config.Parse("xdsrelay.yaml", []byte(text)); err != nil {
		return &cli.Error{Code: cli.ExitFailure, Err: err, Hint: "the flags, or answers, make this configuration"}
	}
	if o.file == "" {
		_, err := io.WriteString(out, text)
		return err
	}
	f, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // it has no secret
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// text is the configuration.
func (o *initFlags) text() string {
	w := new(strings.Builder)
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line("# yaml-language-server: $schema=%s", config.SchemaURL)
	line("# Every key: https://github.com/xdsrelay/xdsrelay/blob/main/docs/configuration.md")
	line("#")
	line("#   xdsrelay validate FILE            checks it")
	line("#   xdsrelay serve --config FILE      runs the relay")
	line("server:")
	line("  listen: %s # for clients", strconv.Quote(o.listen))
	if o.certs != "" {
		line("  tls: {cert_file: %s, key_file: %s,", o.cert("server.pem"), o.cert("server-key.pem"))
		line("    client_ca_file: %s} # clients must present a certificate", o.cert("clients-ca.pem"))
	}
	line("admin:")
	line("  listen: %s # for operators: metrics, state, and commands", strconv.Quote(o.admin))
	line("upstreams:")
	if o.path != "" {
		line("  - name: files")
		line("    default: true # for all names that no other upstream claims")
		line("    path: %s # files with DiscoveryResponses. The relay follows changes", strconv.Quote(o.path))
	} else {
		quoted := make([]string, len(o.planes))
		for i, address := range o.planes {
			quoted[i] = strconv.Quote(address)
		}
		line("  - name: primary")
		line("    default: true # for all names that no other upstream claims")
		line("    api_type: %s # what the control plane speaks. Clients may speak anything", strconv.Quote(o.api))
		line("    endpoints: [%s] # in order of priority", strings.Join(quoted, ", "))
	}
	line("aggregation:")
	line("  # isolate: each node has its own upstream stream. share: all clients share one, which is right only if the")
	line("  # control plane sends the same resources to every node. Rules say it for each client: docs/rules.md")
	line("  otherwise: %s", strconv.Quote(o.otherwise))
	line("# The relay gives secrets (SDS) to no client, unless a rule allows it:")
	line("# access:")
	line("#   rules: [{name: secrets, match: type == sds, effect: allow, secrets: true}]")
	if o.cache != "" {
		line("cache:")
		line("  dir: %s # resources for the next start, if the control plane is away then", strconv.Quote(o.cache))
	}
	if len(o.peers) > 0 {
		line("peers: # other relays, which this one asks while the control plane is away")
		line("  listen: %s # where they ask this one", strconv.Quote(o.peersListen))
		line("  identities: [%s] # in their certificates", strconv.Quote(devRelayID))
		line("  addresses:")
		for _, p := range o.peers {
			line("    - %s", strconv.Quote(p))
		}
		line("  tls: {ca_file: %s, cert_file: %s, key_file: %s}", o.cert("relays-ca.pem"), o.cert("relay.pem"), o.cert("relay-key.pem"))
		line("  secrets: false # true: relays give each other secrets, too")
	}
	return w.String()
}

func (o *initFlags) cert(name string) string { return strconv.Quote(filepath.Join(o.certs, name)) }
