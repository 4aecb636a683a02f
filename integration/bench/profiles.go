//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
)

// profileTime is how long a profile is taken for.
const profileTime = 5 * time.Second

// profiles are CPU profiles of one measurement: of the clients, and of the relay, if that is
// the server.
type profiles struct {
	taking sync.WaitGroup
	file   *os.File
	err    error // of the relay's, once taking is done
}

// profile begins to take profiles, if that was asked for. The result must be closed.
func (d *deployment) profile(ctx context.Context) (*profiles, error) {
	if d.options.profiles == "" {
		return nil, nil
	}
	file, err := os.Create(d.profileFile("clients")) //nolint:gosec // the folder is the user's choice
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &profiles{file: file}
	if d.server.Admin != "" {
		which := fmt.Sprintf("profile?seconds=%.0f", profileTime.Seconds())
		p.taking.Go(func() { p.err = d.fetchProfile(ctx, which, "cpu") })
	}
	return p, nil
}

// close ends the clients' profile, and waits for the relay's. It does nothing to nil.
func (p *profiles) close() error {
	if p == nil {
		return nil
	}
	pprof.StopCPUProfile()
	p.taking.Wait()
	return errors.Join(p.file.Close(), p.err)
}

// memoryProfile keeps what a relay has in its memory, if that was asked for.
func (d *deployment) memoryProfile(ctx context.Context, when string) error {
	if d.options.profiles == "" || d.server.Admin == "" {
		return nil
	}
	return d.fetchProfile(ctx, "heap", "heap-"+when)
}

// profileFile is where a profile is kept.
func (d *deployment) profileFile(what string) string {
	name := strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(d.options.measuring + "-" + string(d.server.Kind))
	return filepath.Join(d.options.profiles, name+"-"+what+".pprof")
}

// fetchProfile takes a profile from a relay's admin port.
func (d *deployment) fetchProfile(ctx context.Context, which, what string) error {
	b, err := d.ask(ctx, "/debug/pprof/"+which)
	if err != nil {
		return fmt.Errorf("a profile: %w", err)
	}
	return os.WriteFile(d.profileFile(what), b, 0o600) //nolint:gosec // the folder is the user's choice
}

// ask gets something from a relay's admin port.
func (d *deployment) ask(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.server.Admin+path, http.NoBody) //nolint:gosec // the address is our own child's
	if err != nil {
		return nil, err
	}
	r.Close = true                          // the relay is about to end
	answer, err := http.DefaultClient.Do(r) //nolint:gosec // likewise
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(answer.Body)
	err = errors.Join(err, answer.Body.Close())
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, b)
	}
	return b, err
}
