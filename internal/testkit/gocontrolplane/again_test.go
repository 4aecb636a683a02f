package gocontrolplane

import (
	"os/exec"
	"sync"
	"testing"
)

// A control plane comes back at its address while other programs are started, which hold copies of its
// closed listener for a moment.
func TestRestartBesidePrograms(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	c := NewSnapshot()
	if err := c.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var programs sync.WaitGroup
	defer programs.Wait()
	over := make(chan struct{})
	defer close(over)
	for range 4 {
		programs.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := exec.CommandContext(t.Context(), program).Run(); err != nil && t.Context().Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 100 {
		c.Stop()
		if err := c.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
