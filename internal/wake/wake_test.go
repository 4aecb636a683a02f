package wake_test

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/wake"
)

// However often it is told, the goroutine looks once.
func TestUp(t *testing.T) {
	slot := wake.New()
	if len(slot) != 0 {
		t.Fatal("a new channel has a value")
	}
	for range 3 {
		wake.Up(slot)
	}
	if n := len(slot); n != 1 {
		t.Fatalf("three calls are %d values, want 1", n)
	}
	<-slot
	wake.Up(slot)
	if len(slot) != 1 {
		t.Fatal("the call after a look is lost")
	}
}
