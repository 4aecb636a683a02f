// Command switches compiles all mutants of a package at once, and finds the tests that a mutant needs, for "make
// soak SUITE=mutate". To build and to link a program for each mutant, and to run all tests, would take longer than the
// tests that find it.
//
//	switches write PACKAGE ...   rewrites packages: the variable MUTANT of a process selects one mutant
//	switches note PACKAGE ...    notes which operators each test of the packages reaches
//	switches test FILE           runs the tests that reach what differs in FILE from its original
//
// gremlins decides which mutants there are, and changes one token for each. A switch has the effect of that change.
// Constant expressions have no switch: a mutant of these is compiled by itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"go/token"
	"os"
	"path/filepath"
)

// The codes with which gremlins takes a mutant for killed, for one that does not compile, and for one that lives.
const (
	killed    = 1
	notViable = 2
	lived     = 0
	failed    = 3 // gremlins takes it for one that lives, too
)

// suite is where the tests and their mutants are.
type suite struct {
	switched string // the module with switches, its compiled tests, and what was noted of them
	original string // the module as it is
}

func main() {
	s := suite{os.Getenv("MUTATE_SWITCHED"), os.Getenv("MUTATE_TREE")}
	code, err := s.run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func (s suite) run(ctx context.Context, args []string) (int, error) {
	switch {
	case len(args) > 1 && args[0] == "write":
		if err := s.write(ctx, args[1:]); err != nil {
			return failed, err
		}

		return lived, nil
	case len(args) > 1 && args[0] == "note":
		if err := s.note(ctx, args[1:]); err != nil {
			return failed, err
		}

		return lived, nil
	case len(args) == 2 && args[0] == "test":
		return s.test(ctx, args[1])
	}

	return failed, errors.New("usage: switches write PACKAGE ... | switches note PACKAGE ... | switches test FILE")
}

func (s suite) list() string { return filepath.Join(s.switched, "operators") }

// write adds the switches to packages.
func (s suite) write(ctx context.Context, packages []string) error {
	all, err := load(ctx, s.switched, packages)
	if err != nil {
		return err
	}
	if err := list(s.list(), all); err != nil {
		return err
	}
	for _, p := range all {
		for _, f := range p.files {
			if err := os.WriteFile(f.path, f.switched(), 0o600); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(p.dir, supportName), fmt.Appendf(nil, support, p.name), 0o600); err != nil {
			return err
		}
	}

	return nil
}

// which compares the operators of two files that differ in one. It returns that operator, and what it became.
func which(original, mutated string) (*file, int, change, error) {
	var files [2]*file
	for i, name := range []string{original, mutated} {
		source, err := os.ReadFile(name) //nolint:gosec // because its caller names the files
		if err != nil {
			return nil, 0, 0, err
		}
		if files[i], err = read(token.NewFileSet(), original, source); err != nil {
			return nil, 0, 0, err
		}
	}
	was, is := files[0].operators, files[1].operators
	if len(was) != len(is) {
		return nil, 0, 0, fmt.Errorf("%s has other operators than %s", mutated, original)
	}
	for i := range was {
		if was[i].token != is[i].token {
			return files[0], i, was[i].changeTo(is[i].token), nil
		}
	}

	return nil, 0, 0, fmt.Errorf("%s is %s", mutated, original)
}
