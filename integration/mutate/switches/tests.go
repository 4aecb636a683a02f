package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// test is a test function.
type test struct {
	of, name string // of a package
	time     time.Duration
	sites    int // how many operators it reaches
}

// note runs each test by itself, without a mutant, and writes down which operators it reaches. It fails if a test
// does: otherwise all mutants would seem to be killed.
func (s suite) note(ctx context.Context, packages []string) error {
	if err := os.MkdirAll(s.notes(), 0o700); err != nil {
		return err
	}
	reached := make(map[string][]string) // of files: operators with tests
	var list strings.Builder
	number := 0
	for _, p := range packages {
		names, err := s.command(ctx, s.binary(p), p, "-test.list=.").Output()
		if err != nil {
			return err
		}
		for name := range strings.FieldsSeq(string(names)) {
			t, sites, err := s.alone(ctx, p, name)
			if err != nil {
				return err
			}
			if t.time >= s.longest(p) {
				continue
			}
			for _, site := range sites {
				of, n, _ := strings.Cut(site, " ")
				reached[of] = append(reached[of], fmt.Sprintf("%s %d", n, number))
			}
			fmt.Fprintf(&list, "%s %s %d %d\n", t.of, t.name, t.time, len(sites))
			number++
		}
	}
	for of, lines := range reached {
		if err := os.WriteFile(s.notesOf(of), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			return err
		}
	}

	if err := os.WriteFile(filepath.Join(s.notes(), "tests"), []byte(list.String()), 0o600); err != nil {
		return err
	}

	return s.profile(reached)
}

// profile writes down what is covered, as gremlins reads it: operators that a test reaches, and those without a switch.
func (s suite) profile(reached map[string][]string) error {
	all, err := s.operators()
	if err != nil {
		return err
	}
	var profile strings.Builder
	profile.WriteString("mode: set\n")
	for of, operators := range all {
		covered := make(map[string]bool)
		for _, line := range reached[of] {
			site, _, _ := strings.Cut(line, " ")
			covered[site] = true
		}
		for i, o := range operators {
			if o.kind != switched || covered[strconv.Itoa(i)] {
				fmt.Fprintf(&profile, "%s:%d.%d,%d.%d 1 1\n", o.file, o.line, o.column, o.line, o.column)
			}
		}
	}

	return os.WriteFile(filepath.Join(s.switched, "coverage.out"), []byte(profile.String()), 0o600)
}

// longest is the time from which on a test of a package is left out.
func (s suite) longest(of string) time.Duration {
	if _, err := os.Stat(filepath.Join(s.switched, of, supportName)); err != nil { //nolint:gosec // because its caller names it
		return quick // it is not the package's task to find the mutants of another one
	}
	if os.Getenv("QUICK") != "" {
		return 2 * quick
	}

	return time.Hour
}

func (s suite) notes() string { return filepath.Join(s.switched, "notes") }

func (s suite) notesOf(of string) string {
	return filepath.Join(s.notes(), strings.ReplaceAll(of, "/", "_"))
}

func (s suite) binary(of string) string { return filepath.Join(s.switched, of+".test") }

// command is a program that runs tests of a package.
func (s suite) command(ctx context.Context, binary, of string, args ...string) *exec.Cmd {
	flags, _ := os.ReadFile(filepath.Join(s.switched, of+".flags"))                            //nolint:gosec // because its caller names it; there may be none
	cmd := exec.CommandContext(ctx, binary, append(strings.Fields(string(flags)), args...)...) //nolint:gosec // because its caller names it
	cmd.Dir = filepath.Join(s.original, of)

	return cmd
}

// alone runs a test by itself.
func (s suite) alone(ctx context.Context, of, name string) (test, []string, error) {
	notes := filepath.Join(s.notes(), "sites")
	if err := os.WriteFile(notes, nil, 0o600); err != nil {
		return test{}, nil, err
	}
	cmd := s.command(ctx, s.binary(of), of, "-test.run=^"+name+"$")
	cmd.Env = append(os.Environ(), "MUTANT_NOTES="+notes)
	if out, err := cmd.CombinedOutput(); err != nil {
		return test{}, nil, fmt.Errorf("without a mutant %s fails: %w\n%s", name, err, out)
	}
	text, err := os.ReadFile(notes)
	if err != nil {
		return test{}, nil, err
	}
	// Two goroutines may both note an operator.
	sites := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	slices.Sort(sites)
	state := cmd.ProcessState

	return test{of: of, name: name, time: state.UserTime() + state.SystemTime()}, slices.Compact(sites), nil
}

// test runs the tests that may find the mutant in a file. gremlins has put it into a copy of the module, and is in the
// folder of the package.
func (s suite) test(ctx context.Context, name string) (int, error) {
	work, err := os.Getwd()
	if err != nil {
		return failed, err
	}
	f, site, to, err := which(filepath.Join(s.original, name), filepath.Join(work, filepath.Base(name)))
	if err != nil {
		return failed, err
	}
	operators, err := s.operators()
	if err != nil {
		return failed, err
	}
	switch operators[f.name][site].kind {
	case text:
		return notViable, nil
	case constant:
		of := filepath.Dir(name)

		return s.testConstant(ctx, of, strings.TrimSuffix(work, of))
	}
	if to == noSwitch {
		return failed, fmt.Errorf("no switch makes operator %d of %s what it is in %s", site, name, work)
	}
	tests, err := s.reaching(f.name, site)
	if err != nil {
		return failed, err
	}

	return s.play(ctx, tests, "MUTANT="+f.id(site, to), func(of string) (string, error) { return s.binary(of), nil })
}

// testConstant runs the tests of a package and those of delivery, compiled with the mutant: no note says which
// tests need a constant.
func (s suite) testConstant(ctx context.Context, of, root string) (int, error) {
	all, err := s.tests()
	if err != nil {
		return failed, err
	}
	all = slices.DeleteFunc(all, func(t test) bool { return t.of != of && t.of != "downstream/delivery" })
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return failed, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // of programs

	return s.play(ctx, all, "MUTANT=", func(of string) (string, error) { return compile(ctx, root, of, dir) })
}

// reaching returns the tests that reach an operator.
func (s suite) reaching(of string, site int) ([]test, error) {
	all, err := s.tests()
	if err != nil {
		return nil, err
	}
	notes, err := os.ReadFile(s.notesOf(of))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var reaching []test
	for line := range strings.Lines(string(notes)) {
		n, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n != strconv.Itoa(site) {
			continue
		}
		i, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		reaching = append(reaching, all[i])
	}

	return reaching, nil
}

func (s suite) tests() (all []test, err error) {
	text, err := os.ReadFile(filepath.Join(s.notes(), "tests"))
	for line := range bytes.Lines(text) {
		var t test
		if _, err := fmt.Sscanln(string(line), &t.of, &t.name, &t.time, &t.sites); err != nil {
			return nil, err
		}
		all = append(all, t)
	}

	return all, err
}
