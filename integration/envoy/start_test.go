package envoy

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// TestStartPages_OPS6 runs the commands of the pages for new users, and compares what they print with what the pages
// say. Only the ports are others.
func TestStartPages_OPS6(t *testing.T) {
	t.Parallel() // most of it is waiting
	programs := t.TempDir()
	if err := os.Symlink(binary(t), filepath.Join(programs, "envoy")); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"cmd/xdsrelay", "cmd/xdsrelay-demo", "examples/grpc-client"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "../../"+program)
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	for _, page := range []string{"envoy", "grpc", "production"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			runPage(t, programs, page)
		})
	}
}

// step is a block of commands, and what they print.
type step struct{ commands, prints string }

const (
	pagePatience = 3 * time.Minute
	// endOfStep separates the output of steps.
	endOfStep = "-- end of a step --"
)

func runPage(t *testing.T, programs, page string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/start/" + page + ".md")
	if err != nil {
		t.Fatal(err)
	}
	steps := stepsOf(withPorts(t, string(text)))
	if len(steps) < 4 {
		t.Fatalf("%d steps", len(steps))
	}
	var script strings.Builder
	for _, s := range steps {
		script.WriteString(s.commands + "echo '" + endOfStep + "'\n")
	}
	folder := t.TempDir()
	var output bytes.Buffer
	shell := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	shell.Dir = folder
	shell.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + folder, "TZ=UTC"}
	shell.Stdout, shell.Stderr = &output, &output
	envoyproc.DieWithParent(shell)
	shell.SysProcAttr.Setpgid = true // what it leaves is ended with it
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() { _ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	t.Cleanup(end)
	late := time.AfterFunc(pagePatience, end)
	defer late.Stop()
	shell.WaitDelay = time.Second // background processes of the page have its output
	err = shell.Wait()
	printed := strings.SplitAfter(output.String(), endOfStep+"\n")
	for i, s := range steps {
		if i >= len(printed) {
			t.Fatalf("it ended (%v) before\n%s", err, s.commands)
		}
		got := strings.TrimSuffix(printed[i], endOfStep+"\n")
		if !s.matches(got) {
			t.Fatalf("%s\nprinted\n%s\nand the page says\n%s", s.commands, got, s.prints)
		}
	}
}

var (
	fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	port  = regexp.MustCompile(`\b(9901|1[05689]\d{3})\b`)
)

// stepsOf gives the blocks of a page.
func stepsOf(page string) (steps []step) {
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		switch block[1] {
		case "sh":
			steps = append(steps, step{commands: block[2]})
		case "text":
			steps[len(steps)-1].prints = block[2]
		}
	}
	return steps
}

// withPorts gives the page with ports that are free, and the defaults where a command does not name them.
func withPorts(t *testing.T, page string) string {
	t.Helper()
	page = strings.ReplaceAll(page, "xdsrelay init --path", "xdsrelay init --listen 127.0.0.1:18100 --admin-listen 127.0.0.1:19100 --path")
	page = strings.ReplaceAll(page, "--node-id edge-1", "--node-id edge-1 --envoy-admin 127.0.0.1:9901")
	free := make(map[string]string)
	return port.ReplaceAllStringFunc(page, func(p string) string {
		if free[p] == "" {
			lis := ports.Listen(t)
			_, free[p], _ = net.SplitHostPort(lis.Addr().String())
			_ = lis.Close()
		}
		return free[p]
	})
}

// matches compares what was printed. "…" stands for anything in a line.
func (s step) matches(printed string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(s.prints), "…", `[^\n]*`)
	return regexp.MustCompile("^" + pattern + "$").MatchString(printed)
}
