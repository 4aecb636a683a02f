package structure

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// loggers are calls that make a logger, or log without one.
var loggers = regexp.MustCompile(`slog\.(New|NewLogLogger|Default|SetDefault|Debug|Info|Warn|Error|Log|With)(Context)?\(.*`)

// madeBy are the only loggers of the product, by file. All others are made of the one that relay.New
// has limited: what is logged to it passes that limit (LIM-4).
var madeBy = map[string][]string{
	"relay/relay.go": {"slog.New(lines.Handler())", "slog.New(lines.Unlimited())", "slog.NewLogLogger(r.refusals.AdminHTTPLog()"},
	"relay/rest.go":  {"slog.NewLogLogger(r.refusals.HTTPLog()"},
	"relay/peers.go": {"slog.NewLogLogger(r.refusals.HTTPLog()"},
}

func TestEveryLineIsLimited_LIM4(t *testing.T) {
	for _, room := range []string{"cache", "downstream", "upstream", "relay", "keyer", "metrics", "internal"} {
		err := filepath.WalkDir(filepath.Join(moduleRoot, room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(moduleRoot, path)
			if err != nil {
				return err
			}
			for _, call := range loggers.FindAllString(string(text), -1) {
				if strings.HasPrefix(call, "slog.New(slog.DiscardHandler)") {
					continue
				}
				known := false
				for _, made := range madeBy[name] {
					known = known || strings.HasPrefix(call, made)
				}
				if !known {
					t.Errorf("%s makes a logger: %s", name, call)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
