package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBad reads every file of testdata/bad, each of which is wrong in one way,
// and compares the errors with the "# want:" comments at its end.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.Lines(string(data)) {
				if message, ok := strings.CutPrefix(line, "# want: "); ok {
					want = append(want, strings.TrimSuffix(message, "\n"))
				}
			}
			c, err := Parse(filepath.Base(file), data)
			if err == nil {
				t.Fatalf("taken as valid, want %q", want)
			}
			if c != nil {
				t.Error("a configuration beside the error")
			}
			if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%T holds no *Error", err)
			}
		})
	}
}
