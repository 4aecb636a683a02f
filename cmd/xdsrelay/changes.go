package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

func changesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "changes",
		Short: "Show what changed, and how many clients have it",
		Long: `Show what changed of what clients get, the last first: name, versions, and of the clients that
ask for it how many were sent the last change, accepted it, and reject it. --diff shows the
difference: "-" is what clients had, "+" is what they have. It shows no payloads of secrets.

Lines in capitals are what operators did: reloads, with the keys that they changed, reloads that
failed, holds, releases and rollbacks. Of a name that is gone, SENT and ACCEPTED are the clients
that were told so.

A relay remembers some states of each scope (cache.generations). Endpoints, secrets and what
clients asked for the first time are not among the changes.

` + exitCodes("a relay refused or failed"),
		Example: `  xdsrelay changes
  xdsrelay changes --since 1h --type rds --diff`,
		Args: noArguments,
	}
	o := newAskFlags(cmd)
	length := 10 * time.Minute
	var typeName string
	var diff bool
	cli.DurationVar(cmd.Flags(), &length, "since", "how long `ago` the changes may be")
	cmd.Flags().StringVarP(&typeName, "type", "t", "", "only this resource `type`")
	cmd.Flags().BoolVar(&diff, "diff", false, "show the difference of the payloads")
	cli.Complete(cmd, "type", typeCompletions()...)
	cmd.RunE = cli.Action(func(*cobra.Command, []string) error {
		if err := typed(typeName); err != nil {
			return err
		}
		q := url.Values{"since": {length.String()}, "diff": {strconv.FormatBool(diff)}}
		if typeName != "" {
			q.Set("type", typeName)
		}
		return show(o, "/changes?"+q.Encode(), func(w io.Writer, answers []adminclient.Answer[admin.Changes]) error {
			o.changes(w, answers, diff)
			return nil
		})
	})
	return cmd
}

func (o *askFlags) changes(w io.Writer, answers []adminclient.Answer[admin.Changes], diff bool) {
	for i := range answers {
		v := &answers[i].Value
		if answers[i].Err != nil {
			continue
		}
		if len(answers) > 1 {
			_, _ = fmt.Fprintf(w, "%s:\n", answers[i].Address)
		}
		rows := [][]string{{"TIME", "TYPE", "NAME", "OLD", "NEW", "ASKING", "SENT", "ACCEPTED", "REJECTED", "SCOPE"}}
		events := v.Events
		add := func(until time.Time) {
			for ; len(events) > 0 && events[0].At.After(until); events = events[1:] {
				x := &events[0]
				rows = append(rows, []string{x.At.UTC().Format(time.TimeOnly), "-", strings.ToUpper(x.Kind), "-", "-", "-", "-", "-", "-", "-"})
			}
		}
		for _, c := range v.Changes {
			add(c.At)
			now := o.cut(dash(c.New), 20)
			if c.Old != "" && c.Old == c.New {
				now += " (other content)"
			}
			row := []string{c.At.UTC().Format(time.TimeOnly), short(c.TypeURL), o.cut(c.Name, 50), o.cut(dash(c.Old), 20), now, "-", "-", "-", "-", o.cut(scopeText(c.Scope), 30)}
			if s := c.Clients; s != nil {
				row[5], row[6], row[7], row[8] = strconv.Itoa(s.Asking), strconv.Itoa(s.Sent), strconv.Itoa(s.Accepted), strconv.Itoa(s.Rejected)
			}
			rows = append(rows, row)
		}
		add(time.Time{})
		if len(rows) == 1 {
			_, _ = fmt.Fprintln(w, "Nothing changed.")
		} else {
			columns(w, rows)
		}
		for i := range v.Events {
			x := &v.Events[i]
			_, _ = fmt.Fprintf(w, "%s %s%s: %s\n", x.At.UTC().Format(time.TimeOnly), strings.ToUpper(x.Kind), by(x.Operator), o.ends(x.Text, 300, 100))
		}
		for _, c := range v.Changes {
			if !diff {
				break
			}
			_, _ = fmt.Fprintf(w, "\n%s %s at %s:\n", short(c.TypeURL), logs.Printable(c.Name), c.At.UTC().Format(time.TimeOnly))
			for _, line := range difference(pretty(c.Before), pretty(c.After)) {
				_, _ = fmt.Fprintf(w, "  %s\n", logs.PrintableLines(line))
			}
		}
		if !v.From.IsZero() {
			_, _ = fmt.Fprintf(w, "The relay remembers all changes since %s only.\n", v.From.UTC().Format(time.RFC3339))
		}
	}
}

// by says who did something, if somebody knows.
func by(operator string) string {
	if operator == "" {
		return ""
	}
	return " by " + logs.Printable(operator)
}

func waitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait TYPE NAME",
		Short: "Wait until clients have a version of a resource",
		Long: `Wait until a share of the clients that ask for a resource have acknowledged a version of it,
over all relays. Without --version it is the one that the relays have.

` + exitCodes("a client rejects it, or --for is over"),
		Example: `  xdsrelay wait cds payments --version 42 --share 99%
  xdsrelay wait rds gateway --for 30s`,
		Args: arguments(2, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return typeCompletions(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	var o adminFlags
	version, share, length, timeout := "", "100%", time.Minute, 5*time.Second
	cmd.Flags().SortFlags = false
	o.add(cmd)
	cmd.Flags().StringVar(&version, "version", "", "`version` of the resource (default the one that the relays have)")
	cmd.Flags().StringVar(&share, "share", share, "`share` of the clients that must have it")
	cli.DurationVar(cmd.Flags(), &length, "for", "how long to `wait`")
	cli.DurationVar(cmd.Flags(), &timeout, "timeout", "`time` that the relays have to answer")
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(share, "%"), 64)
		if err != nil || percent <= 0 || percent > 100 {
			return cli.Usage(fmt.Errorf("--share: expected 0%% to 100%%, got %q", share), "")
		}
		if err := typed(args[0]); err != nil {
			return err
		}
		relays, err := o.client(cmd.Context())
		if err != nil {
			return err
		}
		w := waiting{version: version, share: percent / 100, path: "/reach?" + url.Values{"type": args[:1], "name": args[1:]}.Encode()}
		for end := time.Now().Add(length); ; {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			answers := adminclient.Get[admin.Reach](ctx, relays, w.path)
			cancel()
			if all := failures(answers); len(all) > 0 {
				failed(cmd.OutOrStdout(), answers)
				return o.outcome(all, len(answers), "")
			}
			done := w.look(answers)
			if done || time.Now().After(end) || !retry.Sleep(cmd.Context(), time.Second/2) {
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), w.text)
				if done {
					return w.err
				}
				if w.asking == 0 {
					return &cli.Error{
						Code: cli.ExitFailure, Err: fmt.Errorf("no client asks for %s %q", args[0], args[1]),
						Hint: fmt.Sprintf("xdsrelay resources %s lists what the relays have", args[0]),
					}
				}
				return &cli.Error{Code: cli.ExitFailure, Err: errors.New("not all have it in time"), Hint: fmt.Sprintf("xdsrelay clients --stale --type %s", args[0])}
			}
		}
	})
	return cmd
}

// waiting is what clients are waited for.
type waiting struct {
	version, path string
	share         float64
	asking        int    // clients that ask for it
	text          string // how far they are
	err           error
}

// look reports whether there is nothing more to wait for.
func (w *waiting) look(answers []adminclient.Answer[admin.Reach]) (done bool) {
	has, asking, rejected, seen := 0, 0, 0, make(map[string]int)
	var lack []string
	for i := range answers {
		v := &answers[i].Value
		asking, rejected = asking+v.Asking, rejected+v.Rejected
		if w.version != "" {
			has += v.Holding[w.version]
		} else {
			has += v.Accepted // of whichever version there is in a client's scope
		}
		lack = append(lack, v.Others...)
		for version, n := range v.Holding {
			seen[version] += n
		}
	}
	w.asking = asking
	held := make([]string, 0, len(seen))
	for _, version := range slices.Sorted(maps.Keys(seen)) {
		name := "version " + logs.Printable(version)
		if version == "" {
			name = "an older version or none"
		}
		held = append(held, fmt.Sprintf("%d %s", seen[version], name))
	}
	w.text = fmt.Sprintf("%d of %s have it", has, plural(asking, "client"))
	if has < asking {
		w.text += fmt.Sprintf(" (%s); not: %s", strings.Join(held, ", "), nodes(lack[:min(3, len(lack))], len(lack)))
	}
	if rejected > 0 && float64(asking-rejected) < w.share*float64(asking) {
		w.err = &cli.Error{Code: cli.ExitFailure, Err: errors.New(plural(rejected, "client") + " rejected it"), Hint: "xdsrelay rejections"}
		return true
	}
	return asking > 0 && float64(has) >= w.share*float64(asking)
}

func diffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff NODE [NODE]",
		Short: "Show where a client differs from the relay, or two clients from each other",
		Long: `Show the names of which a client has not acknowledged what the relay has: the version that it
acknowledged, the one that it was sent last, and the one that the relay has. With two nodes
the command shows the names that only one has, or that they have in different versions, and those
that both reject or lack.

"xdsrelay compare" compares a relay with its control plane.

` + exitCodes("there is a difference, or no such client"),
		Example: `  xdsrelay diff router~10.0.0.7
  xdsrelay diff router~10.0.0.7 router~10.0.0.8 --type cds`,
		Args:              arguments(1, 2),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := newAskFlags(cmd)
	var typeName string
	cmd.Flags().StringVarP(&typeName, "type", "t", "", "only this resource `type`")
	cli.Complete(cmd, "type", typeCompletions()...)
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		if err := typed(typeName); err != nil {
			return err
		}
		q := url.Values{"names": {"true"}, "node": args}
		if typeName != "" {
			q.Set("type", typeName)
		}
		return show(o, "/clients?"+q.Encode(), func(w io.Writer, answers []adminclient.Answer[[]downstream.Status]) error {
			all := make([]map[[2]string]delivery.Detail, len(args))
			for i, node := range args {
				if all[i] = namesOf(node, answers); all[i] == nil && len(failures(answers)) == 0 {
					return &cli.Error{Code: cli.ExitFailure, Err: fmt.Errorf("no client has the node %q", node), Hint: "xdsrelay clients lists them"}
				}
			}
			if len(args) == 1 {
				return somethingDiffers(o.differs(w, all[0]))
			}
			return somethingDiffers(o.differ(w, args, all[0], all[1]))
		})
	})
	return cmd
}

func somethingDiffers(n int) error {
	if n == 0 {
		return nil
	}
	return &cli.Error{Code: cli.ExitFailure, Err: errors.New(plural(n, "difference"))}
}

// namesOf are all names that a node asks for, by type; nil if there is no such node.
func namesOf(node string, answers []adminclient.Answer[[]downstream.Status]) (all map[[2]string]delivery.Detail) {
	for i := range answers {
		for _, c := range answers[i].Value {
			if c.Node != node {
				continue
			}
			if all == nil {
				all = make(map[[2]string]delivery.Detail)
			}
			for typeURL, t := range c.Types {
				for _, d := range t.Names {
					all[[2]string{typeURL, d.Name}] = d
				}
			}
		}
	}
	return all
}

func compareNames(a, b [2]string) int { return slices.Compare(a[:], b[:]) }

// differs shows what a client lacks, and returns how many names.
func (o *askFlags) differs(w io.Writer, all map[[2]string]delivery.Detail) (n int) {
	rows := [][]string{{"TYPE", "NAME", "STATUS", "ACKNOWLEDGED", "SENT", "CACHED"}}
	for _, k := range slices.SortedFunc(maps.Keys(all), compareNames) {
		if d := all[k]; d.Status != delivery.StatusAcked && d.Status != delivery.StatusMissing {
			n++
			rows = append(rows, []string{short(k[0]), o.cut(d.Name, 50), d.Status, o.cut(dash(d.Held), 20), o.cut(dash(d.Sent), 20), o.cut(dash(d.Cached), 20)})
		}
	}
	if n == 0 {
		_, _ = fmt.Fprintf(w, "The client acknowledged all that the relay has for it: %s.\n", plural(len(all), "name"))
		return 0
	}
	columns(w, rows)
	return n
}

// differ shows where two clients differ, and returns in how many names.
func (o *askFlags) differ(w io.Writer, names []string, a, b map[[2]string]delivery.Detail) (n int) {
	both := 0 // lack or reject the same
	rows := [][]string{{"TYPE", "NAME", o.cut(names[0], 30), o.cut(names[1], 30)}}
	keys := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.SortFunc(keys, compareNames)
	for _, k := range slices.Compact(keys) {
		has := func(all map[[2]string]delivery.Detail) string {
			d, asks := all[k]
			switch {
			case !asks:
				return "-"
			case d.Held != "":
				return d.Held
			case d.Status == delivery.StatusNacked:
				return "rejects " + d.Cached
			case d.Status == delivery.StatusStale:
				return "lacks " + d.Cached
			}
			return d.Status
		}
		x, y := has(a), has(b)
		lacks := a[k].Status == delivery.StatusNacked || a[k].Status == delivery.StatusStale
		if x != y || lacks {
			n++
			if x == y {
				both++
			}
			rows = append(rows, []string{short(k[0]), o.cut(k[1], 50), o.cut(x, 30), o.cut(y, 30)})
		}
	}
	if n == 0 {
		_, _ = fmt.Fprintf(w, "Both acknowledged the same: %s.\n", plural(len(a), "name"))
		return 0
	}
	columns(w, rows)
	if both > 0 {
		_, _ = fmt.Fprintf(w, "Both reject or lack the same in %s: xdsrelay why NODE TYPE NAME says why.\n", plural(both, "name"))
	}
	return n
}

// collected are the pages that collect asks for, by file.
var collected = map[string]string{
	"status.json": "/status", "clients.json": "/clients", "gone.json": "/clients?gone=true", "upstreams.json": "/upstreams", "scopes.json": "/scopes",
	"rejections.json": "/rejections", "changes.json": "/changes?since=24h", "held.json": "/held", "generations.json": "/generations",
	"resources.json": "/resources", "config.yaml": "/config", "metrics.txt": "/metrics",
	"goroutines.txt": "/debug/pprof/goroutine?debug=1", "heap.pb.gz": "/debug/pprof/heap",
}

func collectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "collect FILE",
		Short: "Write what relays know of themselves into a bundle for support",
		Long: `Write what relays know of themselves into FILE, a .tar.gz with a folder for each relay: status,
clients, those that went, control planes, scopes, rejections, changes, what is held, resources
without payloads, the configuration, metrics, goroutines and the heap.

The bundle has no payloads, tokens and keys. It has names, nodes' IDs, addresses and versions.

` + exitCodes("a relay refused or failed; the bundle has the rest, and errors.txt says what is missing"),
		Example:           `  xdsrelay collect --admin dns:xdsrelay-headless.infra:19100 bundle.tar.gz`,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.FixedCompletions([]string{"gz"}, cobra.ShellCompDirectiveFilterFileExt),
	}
	return askAll(cmd, func(ctx context.Context, o *adminFlags, relays *adminclient.Client, args []string) error {
		bundle, failed := collect(ctx, relays, time.Now())
		if err := os.WriteFile(args[0], bundle, 0o600); err != nil {
			return cli.Usage(err, "")
		}
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes of %s\n", args[0], len(bundle), plural(len(relays.Addresses()), "relay"))
		return o.outcome(failed, len(relays.Addresses()), "errors.txt in the bundle says what is missing")
	})
}

// askAll makes a command of one that asks relays for much, and gives them time for it.
func askAll(cmd *cobra.Command, run func(ctx context.Context, o *adminFlags, relays *adminclient.Client, args []string) error) *cobra.Command {
	var o adminFlags
	timeout := 30 * time.Second
	cmd.Flags().SortFlags = false
	o.add(cmd)
	cli.DurationVar(cmd.Flags(), &timeout, "timeout", "`time` that the relays have to answer")
	cmd.RunE = cli.Action(func(_ *cobra.Command, args []string) error {
		relays, err := o.client(cmd.Context())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		return run(ctx, &o, relays, args)
	})
	return cmd
}

// collect makes the bundle. Of a relay that fails several times one error is returned.
func collect(ctx context.Context, relays *adminclient.Client, now time.Time) (bundle []byte, failed []error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	put := func(name string, data []byte) {
		_ = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: now, Format: tar.FormatPAX}) // to memory
		_, _ = archive.Write(data)
	}
	var missing strings.Builder
	bad := make(map[string]bool)
	for _, file := range slices.Sorted(maps.Keys(collected)) {
		for _, a := range adminclient.Get[adminclient.Raw](ctx, relays, collected[file]) {
			folder := strings.NewReplacer("/", "_", ":", "_").Replace(a.Address)
			if a.Err == nil {
				put(filepath.ToSlash(filepath.Join(folder, file)), a.Value)
				continue
			}
			fmt.Fprintf(&missing, "%s %s: %v\n", a.Address, collected[file], a.Err)
			if !bad[a.Address] {
				bad[a.Address] = true
				failed = append(failed, a.Err)
			}
		}
	}
	if missing.Len() > 0 {
		put("errors.txt", []byte(missing.String()))
	}
	_ = archive.Close() // to memory
	_ = zip.Close()
	return out.Bytes(), failed
}
