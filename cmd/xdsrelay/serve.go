package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/sockets"
	"github.com/xdsrelay/xdsrelay/relay"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the relay",
		Long: `Run the relay until SIGINT or SIGTERM. Then the relay drains: it refuses new
streams and closes the open streams over the time server.drain. A second signal
ends the drain at once.

SIGHUP, or a change of the file, reloads the configuration. Clients and unchanged
upstreams stay connected. If the new configuration is not usable, nothing changes,
and the log has the reasons. Some keys need a restart: see docs/operating.md.

The flags below override the environment (XDSRELAY_SERVER_LISTEN for server.listen
and so on). The environment overrides the file.

` + localExitCodes("the configuration or a file that it names is not usable, an address is in use, or the relay failed") + `

A process manager may start the relay again after 1: somebody may have repaired the
file. After 2 it need not (systemd: RestartPreventExitStatus=2). A systemd service of
Type=notify is told when the relay serves, reloads and drains.`,
		Example: `  xdsrelay serve --config xdsrelay.yaml
  xdsrelay serve --config xdsrelay.yaml --listen :18100 --log-format json`,
		Args: noArguments,
	}
	file := configFlags(cmd)
	watch := cmd.Flags().Bool("watch-config", true, "reload the configuration when its file changes; SIGHUP always reloads")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, _ []string) error {
		if err := file.find(); err != nil {
			return err
		}
		c := &configuration{
			load: file.load, path: file.path, watch: *watch && file.path != stdin,
			manager: manager(os.Getenv("NOTIFY_SOCKET")), serving: make(chan struct{}), commands: make(chan reloadOrder), ended: make(chan struct{}),
		}
		stop := c.follow()
		defer stop()
		cfg, err := c.load()
		if err != nil {
			return unusable(err, "xdsrelay validate checks a configuration and starts nothing; "+keysHint)
		}
		lines := logs.NewWriter(cmd.ErrOrStderr(), maxLogQueue)
		defer lines.Close(logFlush)
		level := new(slog.LevelVar)
		level.Set(cfg.Log.Level.Slog())
		log := logger(lines, cfg.Log.Format, level)
		lines.Tell(func(missing uint64) {
			log.Warn("the log lost lines because it could not be written fast enough", "lines", missing)
		})
		return serve(cmd.Context(), cfg, c, relay.Options{
			Log: log, Version: thisBuild().Version, Level: level, LogLost: lines.Lost, Audit: lines, Memory: limitMemory(cfg.Limits.Memory, log),
		})
	})
	return cmd
}

const (
	// maxLogQueue bounds the lines of the log that wait while it cannot be written, in bytes.
	maxLogQueue = 1 << 20
	// logFlush is how long the end of the program waits for them.
	logFlush = time.Second
)

// serve runs a relay until ctx ends, and then until the drain ends.
func serve(ctx context.Context, cfg *config.Config, c *configuration, options relay.Options) error {
	xds, err := listen(ctx, "server.listen", cfg.Server.Listen, cfg.Server.SocketMode)
	if err != nil {
		return err
	}
	defer func() { _ = xds.Close() }() // the relay has closed it, unless there is none
	admin, err := listen(ctx, "admin.listen", cfg.Admin.Listen, cfg.Admin.SocketMode)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	var more opened
	defer more.close()
	if err := more.open(ctx, cfg); err != nil {
		return err
	}
	options.Serving = func() { close(c.serving) }
	options.Reload, options.Read = c.command, c.read
	r, err := relay.New(cfg, options)
	if err != nil {
		return &cli.Error{Code: cli.ExitFailure, Err: err, Hint: "xdsrelay validate also checks the files that a configuration names"}
	}
	warn(cfg, options.Log)
	if err := more.serve(r); err != nil {
		return err
	}
	force, stop := secondSignal()
	defer stop()
	ignore := c.reloads(ctx, r, options.Log)
	defer ignore()
	return r.Run(ctx, force, xds, admin)
}

// warn logs what validate warns of.
func warn(cfg *config.Config, log *slog.Logger) {
	for _, w := range append(cfg.Warnings(), cfg.OpenFiles()...) {
		log.Warn("the configuration is valid and risky", "warning", w)
	}
}

// opened are the sockets beside those of server.listen and admin.listen.
type opened struct {
	rest, probes, peers net.Listener // nil: none
	named               map[string]net.Listener
}

func (o *opened) open(ctx context.Context, cfg *config.Config) (err error) {
	if a := &cfg.Admin; a.ProbesListen != "" {
		if o.probes, err = listen(ctx, "admin.probes_listen", a.ProbesListen, a.SocketMode); err != nil {
			return err
		}
	}
	if cfg.Peers.Listen != "" {
		if o.peers, err = listen(ctx, "peers.listen", cfg.Peers.Listen, 0); err != nil {
			return err
		}
	}
	s := &cfg.Server
	if s.RESTListen != "" {
		if o.rest, err = listen(ctx, "server.rest_listen", s.RESTListen, s.SocketMode); err != nil {
			return err
		}
	}
	o.named = make(map[string]net.Listener, len(s.Listeners))
	for _, l := range s.Listeners {
		if o.named[l.Name], err = listen(ctx, "server.listeners["+l.Name+"].listen", l.Listen, l.SocketMode); err != nil {
			delete(o.named, l.Name)
			return err
		}
	}
	return nil
}

// serve has a relay serve clients, probes and peers on them.
func (o *opened) serve(r *relay.Relay) error {
	if o.probes != nil {
		r.ServeProbes(o.probes)
	}
	if o.peers != nil {
		r.ServePeers(o.peers)
	}
	if o.rest != nil {
		r.ServeREST(o.rest)
	}
	for name, lis := range o.named {
		if err := r.ServeListener(name, lis); err != nil {
			return err
		}
	}
	return nil
}

// close closes what the relay has not closed: all of it, if there is no relay.
func (o *opened) close() {
	for _, lis := range []net.Listener{o.rest, o.probes, o.peers} {
		if lis != nil {
			_ = lis.Close()
		}
	}
	for _, lis := range o.named {
		_ = lis.Close()
	}
}

func listen(ctx context.Context, key, address string, mode config.FileMode) (net.Listener, error) {
	lis, err := sockets.Listen(ctx, address, mode.Std())
	if err != nil {
		return nil, &cli.Error{
			Code: cli.ExitFailure, Err: fmt.Errorf("%s: %w", key, err),
			Hint: "does another program, or another relay, use this address?",
		}
	}
	return lis, nil
}

// secondSignal gives a channel that the second signal closes. The first signal ends
// main's context (OPS-4). secondSignal counts both from the start, because the second
// may come before any goroutine looked at the context.
func secondSignal() (force <-chan struct{}, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	forced, done := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 2 {
			select {
			case <-signals:
			case <-done:
				return
			}
		}
		close(forced)
	})
	return forced, func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
	}
}

// logger makes the log as configured. Its level may change.
func logger(w io.Writer, format config.LogFormat, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
