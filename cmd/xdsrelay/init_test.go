package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
)

// TestInit_OPS6 has each configuration that init writes pass validate, with its files.
func TestInit_OPS6(t *testing.T) {
	dir := t.TempDir()
	certs := filepath.Join(dir, "certs")
	if got := xdsrelay(t, "dev-certs", certs); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for name, args := range map[string][]string{
		"plane":      {"--control-plane", "a:1", "--control-plane", "[::1]:2", "--api-type", "GRPC", "--listen", "unix:///run/x.sock"},
		"files":      {"--path", dir, "--otherwise", "share"},
		"production": {"--control-plane", "a:1", "--certs", certs, "--cache-dir", dir, "--peer", "b:2", "--peer", "c:2", "--peers-listen", "127.0.0.1:2"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name+".yaml")
			if got := xdsrelay(t, append([]string{"init", "--file", file}, args...)...); got.code != 0 || got.stdout+got.stderr != "" {
				t.Fatalf("%+v", got)
			}
			if got := xdsrelay(t, "validate", file); got.code != 0 || got.stderr != "" {
				t.Errorf("%+v", got)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := xdsrelay(t, append([]string{"init"}, args...)...); got.stdout != string(text) {
				t.Errorf("%+v", got)
			}
			if got := xdsrelay(t, append([]string{"init", "--file", file}, args...)...); got.code != cli.ExitFailure || !strings.Contains(got.stderr, "file exists") {
				t.Errorf("a file that exists: %+v", got)
			}
		})
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, cli.ExitUsage, "error: expected --control-plane or --path\n"},
		{[]string{"--control-plane", "a:1", "--peer", "b:1", "--peers-listen", ":2"}, cli.ExitUsage, "error: --peer needs --certs"},
		{[]string{"--control-plane", "a"}, cli.ExitFailure, "endpoints[0]: expected host:port, got \"a\"\nhint: the flags"},
	} {
		if got := xdsrelay(t, append([]string{"init"}, tt.args...)...); got.code != tt.code || !strings.Contains(got.stderr, tt.want) || got.stdout != "" {
			t.Errorf("%v: %+v", tt.args, got)
		}
	}
}

// TestInitAsks_OPS6 answers the questions, and leaves out what the answers make needless.
func TestInitAsks_OPS6(t *testing.T) {
	for answers, want := range map[string]string{
		"a:1\nGRPC\nshare\n\n":    "upstreams:\n  - name: primary\n    default: true # for all names that no other upstream claims\n    api_type: \"GRPC\"",
		"\n/etc/xds\n\n[::1]:2\n": "upstreams:\n  - name: files\n",
	} {
		o := &initFlags{api: "REST", otherwise: "isolate", listen: "127.0.0.1:1", admin: "127.0.0.1:3"}
		var asked, written strings.Builder
		if err := o.ask(strings.NewReader(answers), &asked); err != nil {
			t.Fatal(err)
		}
		if err := o.write(&written); err != nil || !strings.Contains(written.String(), want) {
			t.Errorf("%q: %v, %s", answers, err, written.String())
		}
		c, err := config.Parse("x", []byte(written.String()))
		if err != nil || (c.Aggregation.Otherwise == config.Share) != strings.Contains(answers, "share") || (c.Server.Listen == "[::1]:2") != strings.Contains(answers, "[::1]:2") {
			t.Errorf("%q: %v, %+v", answers, err, c)
		}
		if n := strings.Count(asked.String(), ": "); n != 4 {
			t.Errorf("%q: %d questions: %s", answers, n, asked.String())
		}
	}
	if err := new(initFlags).ask(strings.NewReader("a:1\n"), new(strings.Builder)); err == nil {
		t.Error("an end without answers is no error")
	}
}
