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
	"github.com/xdsrelay/xdsrelay/internal/filewatch"
	"github.com/xdsrelay/xdsrelay/relay"
)

// configuration is where the configuration of a relay comes from, at its start and
// later.
type configuration struct {
	load  func() (*config.Config, error) // everything: file, environment, flags
	path  string                         // of the file
	watch bool                           // whether changes of the file are followed

	file  *filewatch.File // nil: they are not, or cannot be
	why   error
	asked chan os.Signal // one slot: SIGHUP came
}

// follow notes what the file holds now, and who asks for a reload. It comes before the
// first load, so that nothing that changes afterwards is missed, and no early SIGHUP ends
// the process. stop comes when nobody is to be listened to any more.
func (c *configuration) follow() (stop func()) {
	c.asked = make(chan os.Signal, 1)
	if s := hangup(); s != nil {
		signal.Notify(c.asked, s)
	}
	if c.watch {
		c.file, c.why = filewatch.NewFile(c.path)
	}
	return func() { signal.Stop(c.asked) }
}

// reloads has the relay reload with each SIGHUP and each change of the file, until ctx
// ends: whatever comes while the relay drains is ignored. stop waits for the end of it.
func (c *configuration) reloads(ctx context.Context, r *relay.Relay, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() { c.run(ctx, changed, log) })
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.asked:
				log.Info("reloading the configuration", "because", "SIGHUP")
			case <-changed:
				log.Info("reloading the configuration", "because", "its file changed")
			}
			c.reload(ctx, r, log)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// run follows the file.
func (c *configuration) run(ctx context.Context, changed chan<- struct{}, log *slog.Logger) {
	if c.file == nil {
		if c.why != nil {
			log.Warn("changes of the configuration's file are not noticed, only SIGHUP is", "error", c.why)
		}
		return
	}
	c.file.Run(ctx, log, func() {
		select {
		case changed <- struct{}{}:
		default: // the reload that is due will read it
		}
	})
}

// read reads the configuration again. A pipe in the file's place is not: the process could
// not end before somebody writes to it.
func (c *configuration) read() (*config.Config, error) {
	if c.file != nil {
		if err := c.file.Check(); err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
	}
	return c.load()
}

// reload reads the configuration and puts it in force. If that cannot be, every problem
// is logged and nothing changes.
func (c *configuration) reload(ctx context.Context, r *relay.Relay, log *slog.Logger) {
	cfg, err := c.read()
	if err != nil {
		r.ReloadFailed(err)
	} else {
		err = r.Reload(cfg)
	}
	if err == nil || errors.Is(err, relay.ErrEnding) || ctx.Err() != nil {
		return
	}
	all := problems(err)
	if all == nil {
		log.Error("the configuration cannot be used, the one from before stays", "error", err)
		return
	}
	for _, problem := range all {
		log.Error("the configuration cannot be used, the one from before stays", "problem", problem)
	}
}
