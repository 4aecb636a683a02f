package downstream

import (
	"slices"
	"testing"
)

// forgetful allows everything, and notes which names it is to forget.
type forgetful struct{ names []string }

func (*forgetful) ByName(string) bool                 { return true }
func (*forgetful) Allows(Use, string, string) bool    { return true }
func (*forgetful) Subscribes(string, string) error    { return nil }
func (*forgetful) Differs(next Access, _ string) bool { return next == nil }

func (f *forgetful) Forget(_, spelling string) { f.names = append(f.names, spelling) }

// Nothing need be remembered of a name that the client does not subscribe to any more (LIM-3).
func TestForget_LIM3(t *testing.T) {
	bubble(t, func(h *harness) {
		access := new(forgetful)
		h.router.access = access
		c := h.client()
		c.subscribe(clusterType, "a", "b")
		h.quiet()
		c.unsubscribe(clusterType, "a")
		h.quiet()
		if !slices.Equal(access.names, []string{"a"}) {
			h.Errorf("the names %q are forgotten, want the one that is unsubscribed from", access.names)
		}
	})
}

// noting is an access that notes what clients subscribe to.
type noting struct {
	forgetful

	asked []string
}

func (n *noting) Subscribes(_, spelling string) error {
	n.asked = append(n.asked, spelling)
	return nil
}

// Unwatched implements Watched.
func (n *noting) Unwatched() Access { return &n.forgetful }

// A name that a client leaves, or has from before, is none that it subscribes to (ACC-2).
func TestSubscribes_ACC2(t *testing.T) {
	bubble(t, func(h *harness) {
		access := new(noting)
		h.router.access = access
		c := h.client()
		c.subscribe(clusterType, "a", "b")
		h.quiet()
		c.unsubscribe(clusterType, "a")
		h.quiet()
		if !slices.Equal(access.asked, []string{"a", "b"}) {
			h.Errorf("ACC-2: %q are subscribed to, want a and b", access.asked)
		}
	})
}
