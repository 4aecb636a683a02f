package relay

import (
	"log/slog"
	"math"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// Zero in the configuration means none. The packages underneath take zero for their
// own defaults: 5 ms, five minutes, two hours.
func TestZeroMeansNone(t *testing.T) {
	u := config.DefaultUpstream()
	u.Batch, u.Keepalive.Time = 0, 0
	c := serverConfig(u, nil, slog.New(slog.DiscardHandler))
	if c.Batch <= 0 || c.Batch.Milliseconds() > 0 {
		t.Errorf("batch: 0 became %v", c.Batch)
	}
	if c.Keepalive.Time != math.MaxInt64 {
		t.Errorf("upstreams[].keepalive.time: 0 became %v", c.Keepalive.Time)
	}
	s := config.Default().Server
	s.Keepalive.Time = 0
	if k := newAges(0).keepalive(s.Keepalive); k.Time != math.MaxInt64 || k.Timeout != s.Keepalive.Timeout.Std() {
		t.Errorf("server.keepalive.time: 0 became %+v", k)
	}
}
