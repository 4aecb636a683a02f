package credentials

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

const (
	// maxListSize bounds a file with a list of tokens, in bytes.
	maxListSize = 1 << 20
	// minToken is how long a token of an operator is at least: nobody guesses it.
	minToken = 16
	// maxOperator bounds the name of an operator, which is logged.
	maxOperator = 64
)

// Role says what a token is for.
type Role string

// The roles. Each one is for what those before it are for, too.
const (
	RoleMetrics Role = "metrics" // the page with metrics
	RoleRead    Role = "read"    // all pages
	RoleAct     Role = "act"     // commands
)

// Operator is whose token it is.
type Operator struct {
	Name string
	Role Role
}

// OperatorList is a file with the tokens of operators.
type OperatorList struct{ *followed[operators] }

// operators are operators by the hash of their token.
type operators map[[sha256.Size]byte]Operator

// OpenOperatorList reads the file and follows it until Close. A file that cannot be used any more leaves the
// last good list in use. The log is for operators.
func OpenOperatorList(path string, log *slog.Logger) (*OperatorList, error) {
	f, err := follow(path, log, func(*operators) (*operators, error) { return readList(path) })
	if err != nil {
		return nil, err
	}
	return &OperatorList{f}, nil
}

// Find tells whose token it is. How long it takes says nothing about the tokens of the list.
func (l *OperatorList) Find(token string) (o Operator, ok bool) {
	o, ok = (*l.current.Load())[sha256.Sum256([]byte(token))]
	return o, ok
}

// CheckOperatorList gives the error that a file is no list of tokens. The error does not name the file, unless
// it is the system's.
func CheckOperatorList(path string) error {
	_, err := readList(path)
	return err
}

// readList reads lines of a name, a role, and a token. Empty lines and lines that begin with
// # are left out. A file without any others is a list of nobody: so the last token can be taken away.
func readList(path string) (*operators, error) {
	data, err := files.Read(path, maxListSize)
	if err != nil {
		return nil, err
	}
	all, n := make(operators), 0
	for line := range strings.Lines(string(data)) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := all.add(fields); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return &all, nil
}

func (all operators) add(fields []string) error {
	if len(fields) != 3 || !slices.Contains([]Role{RoleMetrics, RoleRead, RoleAct}, Role(fields[1])) {
		return errors.New("expected NAME, metrics, read or act, and TOKEN, with space between them")
	}
	name, token := fields[0], fields[2]
	if len(name) > maxOperator || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("expected a name of at most %d printable ASCII characters", maxOperator)
	}
	if err := check(token); err != nil {
		return err
	}
	if len(token) < minToken {
		return fmt.Errorf("expected a token of at least %d characters", minToken)
	}
	key := sha256.Sum256([]byte(token))
	if other, twice := all[key]; twice {
		return fmt.Errorf("%s has the same token", other.Name)
	}
	all[key] = Operator{Name: name, Role: Role(fields[1])}
	return nil
}
