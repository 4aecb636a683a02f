package logs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// Apart calls a function, and its panic is the caller's: it is contained as if there were no other
// goroutine, with the place and the stack of the function.
func TestApart_SUR6(t *testing.T) {
	called := false
	Apart(func() { called = true })
	if !called {
		t.Error("the function was not called")
	}
	var log bytes.Buffer
	p := NewPanics(slog.New(slog.NewTextHandler(&log, nil)), nil)
	err := p.Do(PartClient, func() { Apart(fails) })
	failed, ok := errors.AsType[*PanicError](err)
	if !ok || failed.Part != PartClient || !strings.HasPrefix(failed.Place, "logs/apart_test.go:") {
		t.Errorf("SUR-6: %v", err)
	}
	if text := log.String(); !strings.Contains(text, "panic=broken") || !strings.Contains(text, "logs.fails") {
		t.Errorf("SUR-6: the log has\n%s", text)
	}
}

func fails() { panic("broken") }
