package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/relay"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// configuration is the source of a relay's configuration, at its start and later.
type configuration struct {
	load  func() (*config.Config, error) // everything: file, environment, flags
	path  string                         // of the file
	watch bool                           // whether the relay watches the file

	manager manager       // is told what the relay does
	serving chan struct{} // closed once the relay serves

	file  *files.WatchedFile // nil: the relay does not watch the file, or cannot
	why   error
	asked chan os.Signal // one slot: a SIGHUP arrived

	commands chan reloadOrder // of operators
	ended    chan struct{}    // closed when no reload is carried out any more
}

// reloadOrder is an operator's.
type reloadOrder struct {
	anyway bool       // however many clients the configuration refuses
	done   chan error // one slot
}

// command has the relay reload for an operator.
func (c *configuration) command(anyway bool) error {
	x := reloadOrder{anyway, make(chan error, 1)}
	select {
	case c.commands <- x:
	case <-c.ended:
		return relay.ErrEnding
	}
	select {
	case err := <-x.done:
		return err
	case <-c.ended:
		return relay.ErrEnding
	}
}

// follow begins to watch the file and SIGHUP. The caller calls it before the first load,
// so that the relay misses no later change, and an early SIGHUP does not end the process.
// stop ends the watch of SIGHUP.
func (c *configuration) follow() (stop func()) {
	c.asked = make(chan os.Signal, 1)
	if s := hangup(); s != nil {
		signal.Notify(c.asked, s)
	}
	if c.watch {
		c.file, c.why = files.NewWatchedFile(c.path)
	}
	return func() { signal.Stop(c.asked) }
}

// reloads makes the relay reload at each SIGHUP and each change of the file, until ctx ends. A
// draining relay does not reload. stop waits for the end of a reload. One goroutine tells the
// service manager all states, so that it hears them in order.
func (c *configuration) reloads(ctx context.Context, r *relay.Relay, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	changed := notify.New()
	var wg sync.WaitGroup
	wg.Go(func() { c.run(ctx, changed, log) })
	wg.Go(func() {
		defer close(c.ended)
		serving := c.serving // nil: the manager knows
		for {
			var x reloadOrder
			select {
			case <-ctx.Done():
				c.manager.tell(stateStopping, log)
				return
			case <-serving:
				c.manager.tell(stateReady, log)
				serving = nil
				continue
			case <-c.asked:
				log.Info("reloading the configuration", "because", "SIGHUP")
			case <-changed:
				log.Info("reloading the configuration", "because", "its file changed")
			case x = <-c.commands:
				log.Info("reloading the configuration", "because", "an operator said so")
			}
			if serving == nil {
				c.manager.tell(stateReloading, log)
			}
			err := c.reload(ctx, r, log, x.anyway)
			if serving == nil {
				c.manager.tell(stateReady, log)
			}
			if x.done != nil {
				x.done <- err
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// run watches the file.
func (c *configuration) run(ctx context.Context, changed chan<- struct{}, log *slog.Logger) {
	if c.file == nil {
		if c.why != nil {
			log.Warn("only SIGHUP reloads the configuration: the relay cannot watch its file", "error", c.why)
		}
		return
	}
	c.file.Run(ctx, log, func() { notify.Signal(changed) }) // a reload that is due will read it
}

// read reads the configuration again. It does not read a pipe in the file's place: the
// process could not end before a write to the pipe.
func (c *configuration) read() (*config.Config, error) {
	if c.file != nil {
		if err := c.file.Check(); err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
	}
	return c.load()
}

// reload reads the configuration and puts it in force. If the configuration is not usable,
// reload logs every problem and changes nothing. anyway: however many clients it refuses.
func (c *configuration) reload(ctx context.Context, r *relay.Relay, log *slog.Logger, anyway bool) error {
	cfg, err := c.read()
	switch {
	case err != nil:
		r.ReloadFailed(err)
	case anyway:
		err = r.ReloadAnyway(cfg)
	default:
		err = r.Reload(cfg)
	}
	if err == nil {
		warn(cfg, log)
		return nil
	}
	if errors.Is(err, relay.ErrEnding) || ctx.Err() != nil {
		return err
	}
	all := problems(err)
	if all == nil {
		log.Error("the new configuration is not usable, the old one stays in force", "error", err)
	}
	for _, problem := range all {
		log.Error("the new configuration is not usable, the old one stays in force", "problem", problem)
	}
	return err
}

func reloadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have relays read their configuration again",
		Long: `Have relays read their configuration again, as SIGHUP does, and say what became of it.

A configuration that would refuse more than 10 % of the connected clients, by access.verify
or aggregation.otherwise, is not taken. The error names some of them. With --yes the relay
takes it, and ends the clients that it refuses at once.

With --dry-run nothing changes. The relay says which keys would change, which of them need a
restart, and which clients would have to connect again or be refused. REST clients that
would only move are left out: their polls go on.

` + exitCodes("a relay does not take its configuration, or would not"),
		Example: `  xdsrelay reload --dry-run
  xdsrelay reload
  xdsrelay reload --yes --admin 10.0.0.1:19100,10.0.0.2:19100`,
		Args: noArguments,
	}
	o := &actFlags{cmd: cmd}
	cmd.Flags().SortFlags = false
	o.add(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "take the configuration however many clients it refuses")
	dry := cmd.Flags().Bool("dry-run", false, "say what would change, and for which clients, and change nothing")
	o.last(false)
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		relays, err := o.client(cmd.Context())
		if err != nil {
			return err
		}
		if *dry {
			return o.foresee(relays)
		}
		return o.post(relays, pathReload, &admin.Command{Yes: o.yes})
	})
	return cmd
}

// foresee shows what a reload would do.
func (o *actFlags) foresee(relays *adminclient.Client) error {
	answers, err := o.send(relays, pathReload, &admin.Command{Yes: o.yes, DryRun: true}, func(b *bytes.Buffer, a *adminclient.Answer[admin.Done]) {
		fmt.Fprintf(b, "%s:\n", a.Address)
		foreseenText(b, a.Value.Foreseen)
	})
	if err != nil {
		return err
	}
	if failed := failures(answers); len(failed) > 0 {
		return o.outcome(failed, len(answers), "mend the configuration; nothing has changed")
	}
	if n := len(slices.DeleteFunc(answers, func(a adminclient.Answer[admin.Done]) bool { return a.Value.Foreseen.Error == "" })); n > 0 {
		return &cli.Error{Code: cli.ExitFailure, Err: fmt.Errorf("%s would not take the configuration", plural(n, "relay")), Hint: "mend the configuration; nothing has changed"}
	}
	return nil
}

func foreseenText(w io.Writer, f *admin.Foreseen) {
	keys := func(title string, all []string) {
		_, _ = fmt.Fprintf(w, "  %s: %d\n", title, len(all))
		for _, key := range all {
			_, _ = fmt.Fprintf(w, "    %s\n", logs.Printable(key))
		}
	}
	clients := func(title string, x *admin.Affected) {
		_, _ = fmt.Fprintf(w, "  %s: %d of %s\n", title, x.Clients, plural(f.Clients, "client"))
		if x.Clients > 0 {
			_, _ = fmt.Fprintf(w, "    %s\n", nodes(x.Some, x.Clients))
		}
	}
	keys("keys that would change", f.Changed)
	keys("keys that need a restart", f.Waiting)
	clients("would have to connect again", &f.Moved)
	clients("would be refused", &f.Refused)
	if f.Unknown > 0 {
		_, _ = fmt.Fprintf(w, "  nothing is known of %s: their clients do not read\n", plural(f.Unknown, "stream"))
	}
	if f.Error != "" {
		_, _ = fmt.Fprintf(w, "  the relay would NOT take it: %s\n", logs.Printable(f.Error))
	}
}
