package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/relay"
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
		serving := c.serving // nil: the manager knows
		for {
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
			}
			if serving != nil {
				c.reload(ctx, r, log)
				continue
			}
			c.manager.tell(stateReloading, log)
			c.reload(ctx, r, log)
			c.manager.tell(stateReady, log)
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
// reload logs every problem and changes nothing.
func (c *configuration) reload(ctx context.Context, r *relay.Relay, log *slog.Logger) {
	cfg, err := c.read()
	if err != nil {
		r.ReloadFailed(err)
	} else {
		err = r.Reload(cfg)
	}
	if err == nil {
		warn(cfg, log)
		return
	}
	if errors.Is(err, relay.ErrEnding) || ctx.Err() != nil {
		return
	}
	all := problems(err)
	if all == nil {
		log.Error("the new configuration is not usable, the old one stays in force", "error", err)
		return
	}
	for _, problem := range all {
		log.Error("the new configuration is not usable, the old one stays in force", "problem", problem)
	}
}
