package integration

import (
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// reload has the relay go on with another configuration: the one that it has, changed.
// The error is ReloadAnyway's: a test may refuse all of its clients.
func (r *testRelay) reload(change func(*config.Config)) error {
	next := *r.config
	next.Upstreams, next.Aggregation.Rules = slices.Clone(next.Upstreams), slices.Clone(next.Aggregation.Rules)
	change(&next)
	if err := r.relay.ReloadAnyway(&next); err != nil {
		return err
	}
	r.config = &next
	return nil
}

// mustReload is reload with a configuration that is right.
func (r *testRelay) mustReload(t testing.TB, change func(*config.Config)) {
	t.Helper()
	if err := r.reload(change); err != nil {
		t.Fatal(err)
	}
}
