//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
)

// reloaded is a relay whose configuration is changed while it runs.
type reloaded struct {
	*testing.T

	log   *bufio.Scanner
	admin string
}

// reloadable starts a relay with a configuration file.
func reloadable(t *testing.T, file string, flags ...string) (r *reloaded, xds string, stop func() int) {
	t.Helper()
	_, log, stop := background(t, append([]string{"serve", "--config", file}, flags...)...)
	addresses := serving(t, log)
	return &reloaded{t, log, addresses["admin"]}, addresses["xds"], stop
}

// logs waits for a line of the log that has all of these in it.
func (r *reloaded) logs(parts ...string) string {
	r.Helper()
next:
	for r.log.Scan() {
		for _, part := range parts {
			if !strings.Contains(r.log.Text(), part) {
				continue next
			}
		}
		return r.log.Text()
	}
	r.Fatalf("the relay ended before it logged %q", parts)
	return ""
}

// page is a page of the admin port.
func (r *reloaded) page(path string) string {
	r.Helper()
	_, text := relays.Page(r, "http://"+r.admin+path)
	return text
}

func (r *reloaded) shows(path string, parts ...string) {
	r.Helper()
	page := r.page(path)
	for _, part := range parts {
		if !strings.Contains(page, part) {
			r.Errorf("%s has no %q:\n%s", path, part, page)
		}
	}
}

// hangs sends the process a SIGHUP, and waits until it has come: to a process that does not listen for it any more, or not
// yet, it would be the end.
func (r *reloaded) hangs() {
	r.Helper()
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGHUP)
	defer signal.Stop(came)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		r.Fatal(err)
	}
	<-came
}

// relayTo is a configuration with a relay in front of a control plane, and further keys.
func relayTo(address, more string) string {
	return fmt.Sprintf(`
server: {listen: "127.0.0.1:0", drain: 10ms}
admin: {listen: "127.0.0.1:0"}
upstreams: [{name: a, default: true, endpoints: ["%s"]}]
%s`, address, more)
}

// rewrite replaces a file in one step.
func rewrite(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// TestReload_SIGHUP has a relay reload with a signal: another control plane, a bad file,
// and keys that wait for a restart. The client notices the first only.
func TestReload_SIGHUP(t *testing.T) {
	plane := func(seconds int64) string {
		return controlPlane(t, cachev3.NewLinearCache(resource.ClusterType,
			cachev3.WithInitialResources(map[string]types.Resource{"cart": cluster("cart", seconds)}),
			cachev3.WithVersionPrefix(fmt.Sprint("plane-", seconds, "-"))), nil)
	}
	first, second := plane(1), plane(2)
	file := write(t, "x.yaml", relayTo(first, ""))
	r, xds, stop := reloadable(t, file, "--watch-config=false")
	lines, _, stopWatch := background(t, "watch", xds, "--type", "cds", "--output", "json", "--payload")
	until(t, lines, map[string]string{"event": "added", "name": "cart"})

	rewrite(t, file, relayTo(second, "log: {level: debug}\n"))
	r.hangs()
	r.logs(`the new configuration is in force`, `upstreams[a].endpoints`, `log.level: info → debug`)
	changed := until(t, lines, map[string]string{"event": "changed", "name": "cart"})
	if got := fmt.Sprint(changed["payload"]); !strings.Contains(got, "connect_timeout:2s") {
		t.Errorf("payload %s", got)
	}
	r.shows("/metrics", `xdsrelay_config_reloads_total{result="success"} 1`, "xdsrelay_config_last_reload_successful 1")

	rewrite(t, file, relayTo(second, "log: {level: debug}\ncache: {max_bytes: lots, idl: 1s}\n"))
	r.hangs()
	r.logs("level=ERROR", "x.yaml:6:20: cache.max_bytes: expected a size")
	r.logs("level=ERROR", "x.yaml:6:26: cache.idl: unknown key")
	r.shows("/metrics", `xdsrelay_config_reloads_total{result="failure"} 1`, "xdsrelay_config_last_reload_successful 0")
	r.shows("/config", "is not usable:", "x.yaml:6:26: cache.idl: unknown key", "max_bytes: 2GiB")
	r.shows("/readyz", "ready")

	rewrite(t, file, relayTo(second, "log: {level: debug}\nfull_state_types: [cds]\n"))
	r.hangs()
	r.logs("level=WARN", "needs a restart", "key=full_state_types", "[lds, cds, srds]", "[cds]")
	r.shows("/metrics", "xdsrelay_config_keys_awaiting_restart 1", "xdsrelay_config_last_reload_successful 1")
	r.shows("/config", "need a restart:", "full_state_types: [lds, cds, srds] → [cds]")

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.hangs()
	r.logs("level=ERROR", "reading the configuration", "no such file")
	rewrite(t, file, relayTo(second, "log: {level: debug}\n"))
	r.hangs()
	r.logs("the new configuration is in force")
	r.hangs()
	r.logs("configuration did not change")
	r.shows("/metrics", `xdsrelay_config_reloads_total{result="unchanged"} 1`, "xdsrelay_config_keys_awaiting_restart 0")
	r.shows("/clients", `"nacks": 0`)
	for _, stop := range []func() int{stopWatch, stop} {
		if code := stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// An operator has a relay reload, and is told what became of it: nothing, if the file refuses the only client that there is, as
// SIGHUP does nothing then, until the operator says yes (ACC-5).
func TestReload_command_ACC5(t *testing.T) {
	plane := controlPlane(t, cachev3.NewLinearCache(resource.ClusterType,
		cachev3.WithInitialResources(map[string]types.Resource{"cart": cluster("cart", 1)})), nil)
	file := write(t, "x.yaml", relayTo(plane, ""))
	r, xds, stop := reloadable(t, file, "--watch-config=false")
	lines, _, stopWatch := background(t, "watch", xds, "--type", "cds", "--output", "json")
	until(t, lines, map[string]string{"event": "added", "name": "cart"})
	rewrite(t, file, relayTo(plane, "access: {verify: [{name: nobody, require: 'node.id == \"nobody\"'}]}\n"))
	r.hangs()
	r.logs("level=ERROR", "it would refuse 1 of 1 connected clients", "rule nobody")
	r.shows("/metrics", `xdsrelay_config_reloads_total{result="failure"} 1`)
	got := xdsrelay(t, "reload", "--dry-run", "--admin", r.admin)
	if want := []string{
		"  keys that would change: 1\n    access.verify", "  keys that need a restart: 0\n", "  would have to connect again: 0 of 1 client\n",
		"  would be refused: 1 of 1 client\n    xdsrelay-watch (rule nobody)\n", "  the relay would NOT take it: it would refuse 1 of 1 connected clients",
	}; got.code != 1 || slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(got.stdout, s) }) {
		t.Errorf("%+v, want %q", got, want)
	}
	if got = xdsrelay(t, "status", "--admin", r.admin); !strings.Contains(got.stdout, "next: xdsrelay reload --dry-run\n") {
		t.Errorf("%+v", got)
	}
	if got = xdsrelay(t, "reload", "--dry-run", "--yes", "--output", "json", "--admin", r.admin); got.code != 0 || !strings.Contains(got.stdout, `"clients": 1`) {
		t.Errorf("%+v", got)
	}
	r.shows("/metrics", `xdsrelay_config_reloads_total{result="failure"} 1`)
	got = xdsrelay(t, "reload", "--admin", r.admin)
	if got.code != 1 || !strings.Contains(got.stdout, "FAILED") || !strings.Contains(got.stdout, "it would refuse 1 of 1 connected clients") {
		t.Errorf("%+v", got)
	}
	got = xdsrelay(t, "reload", "--yes", "--admin", r.admin)
	if got.code != 0 || !strings.Contains(got.stdout, r.admin+": the configuration is in force\n") {
		t.Errorf("%+v", got)
	}
	for inForce, refused := false, false; !inForce || !refused; { // the client may be refused before that is logged
		line := r.logs()
		inForce = inForce || strings.Contains(line, "the new configuration is in force") && strings.Contains(line, "access.verify")
		refused = refused || strings.Contains(line, "access.verify refuses a client's node") && strings.Contains(line, "rule=nobody")
	}
	rewrite(t, file, relayTo(plane, "access: {verify: [{name: nobody}]}\n"))
	if got = xdsrelay(t, "reload", "--yes", "--admin", r.admin); got.code != 1 || !strings.Contains(got.stdout, "access.verify[0].require") {
		t.Errorf("%+v", got)
	}
	stopWatch()
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestReload_file follows the file: replaced, written in place, and in a ConfigMap.
func TestReload_file(t *testing.T) {
	address := controlPlane(t, cachev3.NewLinearCache(resource.ClusterType), nil)
	linger := func(minutes int) string {
		return relayTo(address, fmt.Sprintf("aggregation: {linger: %dm}\n", minutes))
	}
	dir := t.TempDir()
	put := func(version int) {
		data := filepath.Join(dir, fmt.Sprint("..v", version))
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		rewrite(t, filepath.Join(data, "x.yaml"), linger(version))
		if err := os.Symlink(data, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	put(1)
	file := filepath.Join(dir, "x.yaml")
	if err := os.Symlink(filepath.Join("..data", "x.yaml"), file); err != nil {
		t.Fatal(err)
	}
	r, _, stop := reloadable(t, file, "--node-id", "from-flag")
	put(2)
	r.logs("its file changed")
	r.logs("is in force", "aggregation.linger: 1m → 2m")
	put(3)
	r.logs("is in force", "aggregation.linger: 2m → 3m")
	r.shows("/config", "linger: 3m", "id: from-flag")
	// An editor that knows nothing of links puts a file in the place of the link.
	rewrite(t, file, linger(4))
	r.logs("is in force", "aggregation.linger: 3m → 4m")
	if err := os.WriteFile(file, []byte(linger(5)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.logs("is in force", "aggregation.linger: 4m → 5m")
	rewrite(t, file, "upstreams: [")
	r.logs("level=ERROR", "x.yaml:1:")
	r.shows("/config", "linger: 5m", "is not usable")
	rewrite(t, file, linger(5))
	r.logs("configuration did not change")
	if page := r.page("/config"); strings.Contains(page, "is not usable") {
		t.Errorf("the failure that is over is still told:\n%s", page)
	}
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What cannot be watched is told of, and SIGHUP reads it all the same.
func TestReload_notAFile(t *testing.T) {
	address := controlPlane(t, cachev3.NewLinearCache(resource.ClusterType), nil)
	pipe := filepath.Join(t.TempDir(), "x.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	fill := func(config string) {
		if err := os.WriteFile(pipe, []byte(config), 0o600); err != nil {
			t.Error(err)
		}
	}
	go fill(relayTo(address, ""))
	_, log, stop := background(t, "serve", "--config", pipe)
	r := &reloaded{T: t, log: log}
	line := r.logs("level=WARN", "only SIGHUP reloads", "is no regular file")
	if !strings.Contains(line, "x.yaml") {
		t.Errorf("%s", line)
	}
	r.hangs()
	r.logs("because=SIGHUP")
	fill(relayTo(address, "aggregation: {linger: 1m}\n"))
	r.logs("is in force", "aggregation.linger: 5m → 1m")
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A SIGHUP that comes before the relay serves is not lost, and ends nothing.
func TestReload_early(t *testing.T) {
	address := controlPlane(t, cachev3.NewLinearCache(resource.ClusterType), nil)
	pipe := filepath.Join(t.TempDir(), "x.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, log, stop := background(t, "serve", "--config", pipe)
	r := &reloaded{T: t, log: log}
	fill, err := os.OpenFile(pipe, os.O_WRONLY, 0) // as soon as it is read
	if err != nil {
		t.Fatal(err)
	}
	r.hangs()
	if _, err := fill.WriteString(relayTo(address, "")); err != nil {
		t.Fatal(err)
	}
	if err := fill.Close(); err != nil {
		t.Fatal(err)
	}
	r.logs("because=SIGHUP")
	if err := os.WriteFile(pipe, []byte(relayTo(address, "aggregation: {linger: 1m}\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	r.logs("is in force", "aggregation.linger: 5m → 1m")
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What takes the file's place and cannot be read is told of, and holds nothing up; a file
// that comes back is read.
func TestReload_replaced(t *testing.T) {
	address := controlPlane(t, cachev3.NewLinearCache(resource.ClusterType), nil)
	file := write(t, "x.yaml", relayTo(address, ""))
	r, _, stop := reloadable(t, file)
	next := file + ".next"
	for name, put := range map[string]struct {
		make func() error
		says string
	}{
		"a pipe":                    {func() error { return syscall.Mkfifo(next, 0o600) }, "is no regular file"},
		"a folder":                  {func() error { return os.Mkdir(next, 0o700) }, "is no regular file"},
		"a link that leads nowhere": {func() error { return os.Symlink("nowhere", next) }, "no such file"},
		"a link that leads back":    {func() error { return os.Symlink(filepath.Base(file), next) }, "too many levels"},
		"half of a file":            {func() error { return os.WriteFile(next, []byte("upstreams: [{name: "), 0o600) }, "x.yaml:1:"},
	} {
		if err := put.make(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
		if line := r.logs("level=ERROR"); !strings.Contains(line, put.says) && !strings.Contains(line, "no such file") {
			t.Errorf("%s: %s", name, line)
		}
		r.shows("/metrics", "xdsrelay_config_last_reload_successful 0")
		r.hangs()
		r.logs("because=SIGHUP")
		r.logs("level=ERROR", put.says)
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		// As some editors write it.
		rewrite(t, file, strings.ReplaceAll(relayTo(address, ""), "\n", "\r\n"))
		r.logs("configuration did not change")
		r.shows("/metrics", "xdsrelay_config_last_reload_successful 1")
	}
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// However many come, the last one counts.
func TestReload_storm(t *testing.T) {
	address := controlPlane(t, cachev3.NewLinearCache(resource.ClusterType), nil)
	file := write(t, "x.yaml", relayTo(address, ""))
	r, _, stop := reloadable(t, file)
	for i := range 200 {
		rewrite(t, file, relayTo(address, fmt.Sprintf("aggregation: {linger: %dm}\n", 10+i)))
		r.hangs()
	}
	r.logs("is in force", "→ 3h29m")
	r.shows("/config", "linger: 3h29m")
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
