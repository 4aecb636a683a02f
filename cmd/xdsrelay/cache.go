package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/logs"
)

func cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Look at what a relay keeps on a disk",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(inspectCommand())
	return cmd
}

func inspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect DIR",
		Short: "Show the snapshots in a folder",
		Long: `Show the snapshots in a folder (cache.dir): the upstream and the scope of each file, its
age, and the number and the size of its resources by type. The command reads every file
as a whole and checks it. It changes nothing. A relay may be using the folder.

A snapshot is as current as "as of" says. It is older than the file if the control plane
was away when the relay wrote the file.

` + localExitCodes("a file is not usable, or the folder is no cache.dir"),
		Example: `  xdsrelay cache inspect /var/lib/xdsrelay
  xdsrelay cache inspect /var/lib/xdsrelay --output json`,
		Args: arguments(1, 1),
	}
	output := cli.OutputFlag(cmd, "`format` of the result: text or json")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, args []string) error {
		found := []snapshotFile{}
		err := snapshot.Inspect(files.OS{}, args[0], func(c *snapshot.Contents) { found = append(found, viewSnapshot(c)) })
		if err != nil {
			return cli.Usage(err, "DIR is the folder that cache.dir names")
		}
		if len(found) == 0 && !files.Used(args[0]) {
			return &cli.Error{Code: cli.ExitFailure, Err: fmt.Errorf("%s has no lock and no snapshots: no relay has used it", args[0]), Hint: "DIR is the folder that cache.dir names"}
		}
		if *output == cli.FormatJSON {
			err = cli.PrintJSON(cmd.OutOrStdout(), found)
		} else {
			err = snapshotText(cmd.OutOrStdout(), found, time.Now())
		}
		for _, f := range found {
			if f.Error != "" && err == nil {
				return &cli.Error{Code: cli.ExitFailure, Err: errors.New("some files are not usable"), Hint: "the relay begins without them; docs/operating.md says more"}
			}
		}
		return err
	})
	return cmd
}

// snapshotFile is one file.
type snapshotFile struct {
	File     string         `json:"file"`
	Bytes    int64          `json:"bytes"`
	Upstream string         `json:"upstream,omitempty"`
	Scope    string         `json:"scope,omitempty"`
	Written  time.Time      `json:"written,omitzero"`
	AsOf     time.Time      `json:"as_of,omitzero"` // the contents were known to be current then
	Error    string         `json:"error,omitempty"`
	Types    []snapshotType `json:"types,omitempty"`
}

// snapshotType is what a file has of one type.
type snapshotType struct {
	TypeURL     string `json:"type_url"`
	Kind        string `json:"kind"` // wildcard, or named: names and globs
	Resources   int    `json:"resources"`
	Bytes       int64  `json:"bytes"`
	Collections int    `json:"collections"`
	Names       int    `json:"names"`
}

func viewSnapshot(c *snapshot.Contents) snapshotFile {
	f := snapshotFile{File: c.Name, Bytes: c.Size}
	if c.Header != nil {
		f.Upstream, f.Scope, f.Written, f.AsOf = c.Header.Upstream, c.Header.Scope, c.Header.Written, c.Header.AsOf
	}
	if c.Err != nil {
		f.Error = c.Err.Error()
		return f
	}
	for _, t := range c.Image.Tables {
		x := snapshotType{
			TypeURL: t.TypeURL, Kind: t.Kind.String(), Resources: len(t.Resources),
			Collections: len(t.Collections), Names: len(t.Names),
		}
		for _, r := range t.Resources {
			x.Bytes += int64(r.Resource.Size())
		}
		f.Types = append(f.Types, x)
	}
	return f
}

func snapshotText(w io.Writer, files []snapshotFile, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, f := range files {
		if i > 0 {
			_, _ = fmt.Fprintln(table) // Flush has the error
		}
		_, _ = fmt.Fprintf(table, "%s\t%d bytes\n", logs.Printable(f.File), f.Bytes)
		if f.Upstream != "" {
			_, _ = fmt.Fprintf(table, "  upstream %s\tscope %s\n", logs.Printable(f.Upstream), scopeText(f.Scope))
			_, _ = fmt.Fprintf(table, "  written %s ago\tas of %s ago\n", since(now, f.Written), since(now, f.AsOf))
		}
		if f.Error != "" {
			_, _ = fmt.Fprintf(table, "  not usable\t%s\n", logs.Printable(f.Error))
		}
		for _, t := range f.Types {
			_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t%d bytes\n", logs.Printable(t.TypeURL), t.Kind, plural(t.Resources, "resource"), t.Bytes)
		}
	}
	if len(files) == 0 {
		_, _ = fmt.Fprintln(table, "no snapshots")
	}
	return table.Flush()
}

func since(now, then time.Time) time.Duration { return now.Sub(then).Round(time.Second) }
