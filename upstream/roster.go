package upstream

import "sync"

// roster counts the sessions of one control plane, so that its end waits for theirs.
type roster struct {
	closing chan struct{} // closed when the sessions are to end

	running sync.WaitGroup // sessions, and who else uses the control plane

	admission sync.Mutex
	closed    bool // guarded by admission
}

func newRoster() *roster { return &roster{closing: make(chan struct{})} }

// enter counts a session in; leave counts it out.
func (r *roster) enter() error {
	r.admission.Lock()
	defer r.admission.Unlock()
	if r.closed {
		return ErrClosed
	}
	r.running.Add(1)
	return nil
}

func (r *roster) leave() { r.running.Done() }

// closes reports whether the sessions are to end.
func (r *roster) closes() bool {
	select {
	case <-r.closing:
		return true
	default:
		return false
	}
}

// close ends the sessions and waits for them. It may be called more than once.
func (r *roster) close() {
	r.admission.Lock()
	first := !r.closed
	r.closed = true
	r.admission.Unlock()
	if first {
		close(r.closing)
	}
	r.running.Wait()
}
