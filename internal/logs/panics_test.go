package logs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

type counts map[Part]int

func (c counts) Panicked(part Part) { c[part]++ }

func fail(values []int) int { return values[len(values)] }

// A panic becomes an error that says where it was, is counted each time, and is logged with its
// stack once.
func TestDo_SUR6(t *testing.T) {
	var log strings.Builder
	seen := make(counts)
	p := NewPanics(slog.New(slog.NewTextHandler(&log, nil)), seen)
	for range 3 {
		err := p.Do(PartResponse, func() { fail(nil) })
		e, ok := errors.AsType[*PanicError](err)
		if !ok || e.Part != PartResponse || !strings.HasPrefix(e.Place, "logs/panics_test.go:") || strings.Contains(err.Error(), "index") {
			t.Fatalf("Do: %v", err)
		}
	}
	_ = p.Do(PartClient, func() { panic("another place") })
	if seen[PartResponse] != 3 || seen[PartClient] != 1 {
		t.Errorf("counted %v", seen)
	}
	text := log.String()
	if strings.Count(text, "stack=") != 2 || !strings.Contains(text, "index out of range [0] with length 0") || !strings.Contains(text, "logs.fail(") {
		t.Errorf("logged\n%s", text)
	}
	if err := p.Do(PartClient, func() {}); err != nil {
		t.Errorf("without a panic: %v", err)
	}
}

// No number of places fills the memory or the log.
func TestPlaces_SUR6(t *testing.T) {
	p := NewPanics(nil, nil)
	for i := range 2 * maxPlaces {
		if isNew := p.places.First(strings.Repeat("x", i)); isNew != (i < maxPlaces) {
			t.Errorf("the stack of place %d is logged: %t", i, isNew)
		}
	}
}

// Without a Panics a panic goes on.
func TestNil_SUR6(t *testing.T) {
	defer func() {
		if v := recover(); v != "on" {
			t.Errorf("recovered %v", v)
		}
	}()
	var p *Panics
	p.Func(PartBackground, func() { panic("on") })()
}

// A loop that panics begins again after a pause that grows, until it ends or its context does.
func TestLoop_SUR6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(counts)
		p := NewPanics(nil, seen)
		turns := 0
		p.Loop(t.Context(), PartBackground, func() {
			if turns++; turns < 10 {
				panic("again")
			}
		})
		if turns != 10 || seen[PartBackground] != 9 {
			t.Errorf("%d turns, %v", turns, seen)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p.Loop(ctx, PartBackground, func() { cancel(); panic("the last") })
		if seen[PartBackground] != 10 {
			t.Errorf("%v after the end", seen)
		}
	})
}
