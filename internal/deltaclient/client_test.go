package deltaclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

const dir = "xdstp://auth/envoy.config.cluster.v3.Cluster/dir/"

func expect[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{})
		c.Subscribe(clusterType, "a")
		c.Subscribe(endpointType)
		running(t, c)
		expect(t, "unanswered", []string{clusterType, endpointType}, c.Unanswered())
		go func() { _ = s.current().Send(response("1", "a@1")) }()
		if err := c.Wait(t.Context(), func(c *xdsclient.Client) bool { return c.State(clusterType, "a") == xdsclient.Present }); err != nil {
			t.Error(err)
		}
		expect(t, "unanswered", []string{endpointType}, c.Unanswered())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Wait(ctx, func(c *xdsclient.Client) bool { return len(c.Unanswered()) == 0 }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
	})
}
