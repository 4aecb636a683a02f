package sockets

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

const (
	unixPrefix = "unix:"
	// maxPath is how long the name of a unix socket may be, in bytes: the system has room for 108
	// with a final zero.
	maxPath = 107
)

// Unix gives the name of the unix socket that an address stands for: the path of its file, or
// "@name" in the abstract namespace. The second result is false for any other address. The error
// says what is wrong with the address.
func Unix(address string) (name string, is bool, err error) {
	rest, is := strings.CutPrefix(address, unixPrefix)
	if !is {
		return "", false, nil
	}
	path, isPath := strings.CutPrefix(rest, "//")
	switch {
	case isPath && strings.HasPrefix(path, "/"):
		name = filepath.Clean(path)
	case strings.HasPrefix(rest, "@") && len(rest) > 1:
		name = rest
	default:
		return "", true, fmt.Errorf("expected unix:///path or unix:@name, got %q", address)
	}
	switch {
	case len(name) > maxPath:
		return "", true, fmt.Errorf("the name of a unix socket has at most %d bytes, %q has %d", maxPath, name, len(name))
	case strings.ContainsRune(name, 0):
		return "", true, errors.New("the name of a unix socket has a zero byte")
	case name == "/":
		return "", true, errors.New("expected the path of a file, got /")
	}
	return name, true, nil
}
