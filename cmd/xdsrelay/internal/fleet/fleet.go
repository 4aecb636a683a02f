package fleet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Node is one recorded node, and where it stands.
type Node struct {
	*corev3.Node

	Peer *keyer.Peer // nil: nothing is recorded of the client's identity
	File string
	Line int // of its beginning, from 1
}

// Error is what cannot be read.
type Error struct {
	File         string
	Line, Column int // from 1; 0 if it is the file as a whole, or the line
	Err          error
}

// Error gives "file:line:column: reason", without what is not known.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v", files.Place(e.File, e.Line, e.Column), e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Read gives the nodes of path in order: of a file, of stdin if path is "-", or of all
// node files in a folder and the folders in it, hidden ones left out. An [*Error] stands
// in the place of a node that is none, and of the rest of a file that cannot be read;
// what follows them is read all the same.
//
// A file holds one node or several: a list, YAML documents, or JSON values one after the
// other, as in JSON Lines. Each is an envoy.config.core.v3.Node, or something that has
// one: a bootstrap of Envoy or gRPC (its "node"), a config_dump of Envoy's admin port, or a
// line of "xdsrelay nodes", which has the names of the client's certificate too (its "peer").
func Read(path string, stdin io.Reader) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		if path == Stdin {
			data, err := io.ReadAll(stdin)
			give("standard input", data, err, yield)
			return
		}
		files, err := list(path)
		if err != nil {
			yield(Node{}, &Error{File: path, Err: reason(err)})
			return
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if !give(file, data, err, yield) {
				return
			}
		}
	}
}

// ErrMore is wrapped by the error of [One] where there is more than one node.
var ErrMore = errors.New("there is more than one node")

// One gives the node of a path that has one, as [Read] reads it.
func One(path string, stdin io.Reader) (*corev3.Node, error) {
	var one *corev3.Node
	for node, err := range Read(path, stdin) {
		switch {
		case err != nil:
			return nil, err
		case one != nil:
			return nil, &Error{File: node.File, Line: node.Line, Err: ErrMore}
		}
		one = node.Node
	}
	return one, nil
}

// give yields the nodes of one file.
func give(file string, data []byte, err error, yield func(Node, error) bool) bool {
	if err != nil {
		return yield(Node{}, &Error{File: file, Err: reason(err)})
	}
	for e, bad := range split(file, data) {
		var node *corev3.Node
		var peer *keyer.Peer
		if bad == nil {
			node, bad = e.node()
			peer = e.peer()
		}
		if bad != nil {
			bad.File = file
			if !yield(Node{}, bad) {
				return false
			}
			continue
		}
		if !yield(Node{node, peer, file, e.line}, nil) {
			return false
		}
	}
	return true
}

// extensions are those of the files of a folder that are read.
var extensions = []string{".yaml", ".yml", ".json", ".jsonl", ".ndjson"}

// list gives the files that path stands for.
func list(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case file != path && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && slices.Contains(extensions, strings.ToLower(filepath.Ext(file))):
			files = append(files, file)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no node files in this folder: expected %s", strings.Join(extensions, ", "))
	}
	return files, err
}

// reason takes the path out of an error that the caller puts it before.
func reason(err error) error {
	if e, ok := err.(*fs.PathError); ok { //nolint:errorlint // one that is wrapped says more than its reason
		return e.Err
	}
	return err
}
