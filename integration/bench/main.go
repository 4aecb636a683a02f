//go:build linux

// Bench measures the relay under load, beside other servers: go-control-plane's caches,
// and a baseline that writes the same bytes without any logic (package baseline). Each server is
// a process of its own; the clients are in this one (package fleet).
//
// It prints tables of ratios, see package report. Run it by "make bench".
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == server.Argument {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == attackArgument {
		if err := attackAs(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "attack:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// serve is a child. What ends it is the end of its standard input: a signal from the
// terminal is for the parent, which then closes it.
func serve() error {
	signal.Ignore(os.Interrupt)
	return server.Main(context.Background(), os.Stdin, os.Stdout)
}

// run measures what the arguments ask for, and writes tables to out and progress to log.
func run(ctx context.Context, args []string, out, log io.Writer) error {
	o, err := parse(args, log)
	if err != nil {
		return err
	}
	// The clients' process produces little garbage and has a core to share with a server.
	debug.SetGCPercent(400)
	chosen := slices.DeleteFunc(scenarios(), func(s scenario) bool {
		return !slices.Contains(o.scenarios, s.name) || len(s.cells(o, s.variants(o))) == 0
	})
	if err := o.prepare(chosen); err != nil {
		return err
	}
	at, err := whereabouts(ctx)
	if err != nil {
		return err
	}
	p := begin(o, chosen, log)
	var tables []*report.Table
	failed := 0
	for i := range chosen {
		t, err := chosen[i].measure(ctx, o, p)
		if err == nil {
			tables, failed = append(tables, t), failed+len(t.Failures)
			if o.write != "" {
				err = at.document(o, t)
			}
		}
		if err != nil {
			return errors.Join(err, show(out, o, tables))
		}
	}
	if err := show(out, o, tables); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d measurements failed", failed, p.total)
	}
	return nil
}

// prepare finds out what could not be kept, before anything is measured for minutes.
func (o *options) prepare(chosen []scenario) error {
	if len(chosen) == 0 {
		return fmt.Errorf("-server: %s take no part in %s", commas(o.servers), commas(o.scenarios))
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o750); err != nil { //nolint:gosec // the folder is the user's choice
			return fmt.Errorf("-profiles: %w", err)
		}
	}
	if o.write == "" {
		return nil
	}
	text, err := os.ReadFile(o.write) //nolint:gosec // a file of the user's choice
	if err != nil {
		return fmt.Errorf("-write: %w", err)
	}
	for i := range chosen {
		if _, err := report.Put(string(text), chosen[i].name, ""); err != nil {
			return fmt.Errorf("-write: %s: %w", o.write, err)
		}
	}
	return nil
}

// show prints the tables.
func show(out io.Writer, o *options, tables []*report.Table) error {
	if o.output == outputJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(tables)
	}
	for _, t := range tables {
		if _, err := fmt.Fprintf(out, "%s\n", t.Section()); err != nil {
			return err
		}
	}
	return nil
}
