package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
)

func nodesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes [FILE]",
		Short: "Record the nodes of the clients that are there",
		Long: `Write the nodes of the clients that relays have now, one in a line, into FILE, or to standard
output: with the names of each client's certificate. "xdsrelay explain --nodes FILE" says what
other rules would do with this fleet, "xdsrelay compare --nodes FILE" what relay and control
plane answer it. A node that several relays have is one line.

The file has all that clients say of themselves, also their metadata.

` + exitCodes("a relay refused or failed"),
		Example: `  xdsrelay nodes --admin dns:xdsrelay-headless.infra:19100 fleet.jsonl
  xdsrelay explain --config new.yaml --nodes fleet.jsonl`,
		Args:              arguments(0, 1),
		ValidArgsFunction: cobra.FixedCompletions([]string{"jsonl"}, cobra.ShellCompDirectiveFilterFileExt),
	}
	return askAll(cmd, func(ctx context.Context, o *adminFlags, relays *adminclient.Client, args []string) (err error) {
		answers := adminclient.Get[adminclient.Raw](ctx, relays, "/nodes")
		seen := make(map[string]bool)
		var all bytes.Buffer
		for i := range answers {
			for line := range bytes.Lines(answers[i].Value) {
				if !seen[string(line)] {
					seen[string(line)] = true
					all.Write(line)
				}
			}
		}
		if bad := failures(answers); len(bad) > 0 {
			failed(cmd.ErrOrStderr(), answers)
			if err = o.outcome(bad, len(answers), ""); len(bad) == len(answers) {
				return err // and the file stays as it is
			}
		}
		if len(args) == 0 {
			_, _ = cmd.OutOrStdout().Write(all.Bytes())
			return err
		}
		if err := os.WriteFile(args[0], all.Bytes(), 0o600); err != nil {
			return cli.Usage(err, "")
		}
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s of %s\n", args[0], plural(len(seen), "node"), plural(len(answers)-len(failures(answers)), "relay"))
		return err
	})
}
