package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// TestResult is what became of one [RuleTest].
type TestResult struct {
	Name         string // the test's
	File         string
	Line, Column int
	Path         string // "aggregation.tests[2]", or "tests[2]" in a file of tests
	// Failure is what was expected, what became of it, and why; or why the test could
	// not be run. nil if it passed.
	Failure *Error
}

// TestRules runs the tests of the aggregation rules: those in the configuration, and
// those in the files beside it whose names end in _test.yaml or _test.yml. Then it runs those of
// the access rules. The error is an
// [errors.Join] of [*Error] if such a file is not valid; then no test was run.
func (c *Config) TestRules() ([]TestResult, error) {
	set, err := c.Rules()
	if err != nil {
		return nil, err
	}
	suites, err := c.suites()
	if err != nil {
		return nil, err
	}
	var results []TestResult
	for _, s := range suites {
		for i := range s.tests {
			results = append(results, s.run(c, set, i))
		}
	}
	access, err := c.runAccess()
	return append(results, access...), err
}

// suite is the tests of one file.
type suite struct {
	file, path string // path is that of the list
	from       origins
	tests      []RuleTest
}

// suites gives the tests of the configuration, and of the files beside it.
func (c *Config) suites() ([]suite, error) {
	all := []suite{{c.file, "aggregation.tests", c.from, c.Aggregation.Tests}}
	if c.file == "" {
		return all, nil
	}
	entries, err := os.ReadDir(filepath.Dir(c.file))
	if err != nil {
		return nil, fmt.Errorf("looking for files of rule tests: %w", err)
	}
	var errs []*Error
	for _, entry := range entries {
		name := filepath.Join(filepath.Dir(c.file), entry.Name())
		if !isTestFile(name) || name == filepath.Clean(c.file) || entry.IsDir() {
			continue
		}
		s, invalid := c.readSuite(name)
		errs = append(errs, invalid...)
		all = append(all, s)
	}
	if len(errs) > 0 {
		return nil, join(errs)
	}
	return all, nil
}

func isTestFile(name string) bool {
	return strings.HasSuffix(name, "_test.yaml") || strings.HasSuffix(name, "_test.yml")
}

// readSuite reads a file of tests, as strictly as the configuration.
func (c *Config) readSuite(name string) (suite, []*Error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return suite{}, []*Error{{File: name, Message: "reading the file: " + reason(err)}}
	}
	var contents struct {
		Tests []RuleTest `yaml:"tests"`
	}
	d := decoder{file: name, from: make(origins)}
	d.decode(data, &contents)
	k := &checker{from: d.from}
	k.tests(c, "tests", contents.Tests)
	return suite{name, "tests", d.from, contents.Tests}, append(d.errs, consequences(k.errs, d.blamed)...)
}

// reason leaves out the path of an error of the file system.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// run runs a test.
func (s *suite) run(c *Config, set *rules.Set, i int) TestResult {
	t := &s.tests[i]
	path := fmt.Sprintf("%s[%d]", s.path, i)
	at := s.from.find(path)
	r := TestResult{Name: t.Name, File: at.file, Line: at.line, Column: at.column, Path: path}
	node, bad := s.node(c, path, t)
	if bad != nil {
		r.Failure = bad
		return r
	}
	if message := t.compare(c, set.Subject(node, t.Peer.identity(t.Listener))); message != "" {
		r.Failure = &Error{at.file, at.line, at.column, fmt.Sprintf("%s %q", path, t.Name), message}
	}
	return r
}

// node gives the node of a test.
func (s *suite) node(c *Config, path string, t *RuleTest) (*corev3.Node, *Error) {
	return nodeFor(c, s.from, path, t.Node)
}

// nodeFor gives the node of a test at a path.
func nodeFor(c *Config, from origins, path string, of TestNode) (*corev3.Node, *Error) {
	at := path + ".node"
	switch node := of.(type) {
	case map[string]any:
		made, err := nodeOf(node)
		if err != nil {
			return nil, from.errorAt(at, "%s", nodeMessage(err))
		}
		return made, nil
	case string:
		file := node
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(c.file), file)
		}
		made, err := files.ReadNode(file)
		if bad, ok := errors.AsType[*files.PlaceError](err); ok {
			return nil, &Error{bad.File, bad.Line, bad.Column, "", fmt.Sprintf("%s (the node of %s)", bad.Message, path)}
		}
		if err != nil {
			return nil, from.errorAt(at, "reading %s: %s", file, reason(err))
		}
		return made, nil
	default:
		return nil, nil
	}
}
