// Package logtest has logs for tests that are written and read by different goroutines.
package logtest

import (
	"strings"
	"sync"
)

// Text is what was written. The zero Text is empty. Any goroutine may use it.
type Text struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String implements [fmt.Stringer].
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Forget drops what was written until now.
func (t *Text) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Reset()
}
