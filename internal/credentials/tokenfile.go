package credentials

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// maxTokenFile bounds a file with one token, in bytes. Servers take no longer headers.
const maxTokenFile = 16 << 10

// TokenFile is a file with a token.
type TokenFile struct{ *followed[fileTokens] }

// fileTokens are the token of a file and the one that it replaced, "" if there is none.
type fileTokens struct{ now, before string }

// OpenTokenFile reads the file and follows it until Close. A file that cannot be used any more leaves the
// last good token in use. The log is for operators.
func OpenTokenFile(path string, log *slog.Logger) (*TokenFile, error) {
	f, err := follow(path, log, func(last *fileTokens) (*fileTokens, error) {
		token, err := ReadToken(path)
		switch {
		case err != nil:
			return nil, err
		case last == nil:
			return &fileTokens{now: token}, nil
		case last.now == token:
			return last, nil
		}
		return &fileTokens{now: token, before: last.now}, nil
	})
	if err != nil {
		return nil, err
	}
	return &TokenFile{f}, nil
}

// Token returns the token. A file has one at any time: the error is nil.
func (f *TokenFile) Token() (string, error) { return f.current.Load().now, nil }

// Lately returns the token and the one that it replaced: what a server quotes may be either.
func (f *TokenFile) Lately() []string {
	t := f.current.Load()
	if t.before == "" {
		return []string{t.now}
	}
	return []string{t.now, t.before}
}

// ReadToken reads a token. The error does not name the file, unless it is the system's. Space around the
// token does not belong to it.
func ReadToken(path string) (string, error) {
	data, err := files.Read(path, maxTokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", errors.New("expected a token, got an empty file")
	}
	if err := check(token); err != nil {
		return "", err
	}
	return token, nil
}

// tokenMarks are what a token may have beside letters and digits (RFC 6750, section 2.1).
const tokenMarks = "-._~+/="

// check holds a token to what a header can have.
func check(token string) error {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(tokenMarks, r)
	}
	if strings.ContainsFunc(token, other) {
		return fmt.Errorf("expected a token of letters, digits and any of %s only, without the word Bearer", tokenMarks)
	}
	return nil
}
