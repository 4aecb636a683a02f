// Package golist has packages as the compiler sees them, for tests and tools that read Go code: what "go list" says of
// them, and the types of what they import. It parses and checks nothing itself.
package golist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Package is what "go list" tells of a package.
type Package struct {
	ImportPath string   `json:"ImportPath"`
	Dir        string   `json:"Dir"`
	GoFiles    []string `json:"GoFiles"` // without those of tests
	Export     string   `json:"Export"`  // the file of the compiler's export data, with -export
}

// List asks "go list" with arguments in a folder of a module. With -deps in args packages come after those that they
// import.
func List(ctx context.Context, folder string, args ...string) ([]Package, error) {
	const fields = "-json=ImportPath,Dir,GoFiles,Export"
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", fields}, args...)...) //nolint:gosec // because its caller names the packages
	cmd.Dir = folder
	out, err := cmd.Output()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, exit.Stderr)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	var all []Package
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var p Package
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// WithExports is [List] for packages and all that they import, with export data.
func WithExports(ctx context.Context, folder string, packages ...string) ([]Package, error) {
	return List(ctx, folder, append([]string{"-export", "-deps"}, packages...)...)
}

// Importer imports packages that [WithExports] has listed from their export data.
func Importer(set *token.FileSet, listed []Package) types.Importer {
	exports := make(map[string]string)
	for _, p := range listed {
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := exports[path]
		if !ok {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(file)
	})
}
