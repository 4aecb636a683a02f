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
	url := "http://" + d.server.Admin + "/debug/pprof/" + which
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody) //nolint:gosec // the address is our own child's
	if err != nil {
		return fmt.Errorf("a profile: %w", err)
	}
	r.Close = true                          // the relay is about to end
	answer, err := http.DefaultClient.Do(r) //nolint:gosec // likewise
	if err != nil {
		return fmt.Errorf("a profile: %w", err)
	}
	b, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return fmt.Errorf("a profile: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("a profile: %s: %s", answer.Status, b)
	}
	return os.WriteFile(d.profileFile(what), b, 0o600) //nolint:gosec // the folder is the user's choice
}
