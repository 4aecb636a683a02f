package relay

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// connect opens a connection, and tells whether the relay says anything on it.
func (r *running) connect() (conn net.Conn, served bool) {
	r.Helper()
	conn, err := net.Dial("tcp", r.xds)
	if errors.Is(err, syscall.ECONNRESET) { // the relay may be as quick as that
		return nil, false
	}
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close() })
	_, err = io.ReadFull(conn, make([]byte, 9)) // of the server's settings
	return conn, err == nil
}

// Connections beyond the limit are reset before anything else, counted and logged, and a reload changes
// the limit. Those that were closed count no more.
func TestConnections_LIM1(t *testing.T) {
	cfg := configOf(upstreamAt("a", "127.0.0.1:1"))
	cfg.Limits.Connections, cfg.Limits.Share = 2, 100
	r := run(t, cfg)
	first, served := r.connect()
	if _, again := r.connect(); !served || !again {
		t.Fatal("a connection is refused")
	}
	if _, served = r.connect(); served {
		t.Error("a third connection is served")
	}
	r.comes("/metrics", "xdsrelay_downstream_connections 2\n")
	r.shows("/metrics", `xdsrelay_downstream_limited_total{limit="connections"} 1`, "xdsrelay_downstream_connections_waiting 0")
	if log := r.log.String(); !strings.Contains(log, "a limit refuses a client's connection") || !strings.Contains(log, "limit=connections") {
		t.Errorf("the log has\n%s", log)
	}
	_ = first.Close()
	r.comes("/metrics", "xdsrelay_downstream_connections 1\n")
	if _, served = r.connect(); !served {
		t.Error("a connection is refused although one has ended")
	}
	r.reload(func(c *config.Config) { c.Limits.Connections, c.Limits.Share = 3, 25 })
	if _, served = r.connect(); served {
		t.Error("an address is served beyond its share")
	}
	r.shows("/metrics", `xdsrelay_downstream_limited_total{limit="share"} 1`)
	r.reload(func(c *config.Config) { c.Limits.Connections = 0 })
	if _, served = r.connect(); !served {
		t.Error("a connection is refused without a limit")
	}
}

// There are never more connections than leave files to open for everything else.
func TestConnectionsOf_LIM1(t *testing.T) {
	for _, tt := range []struct {
		most  int
		files uint64
		want  int
	}{{100, 0, 100}, {100, 1024, 100}, {1000, 1024, 768}, {0, 1024, 768}, {0, 0, 0}, {100, 1 << 62, 100}, {100, 1, 1}} {
		if got := connectionsOf(&config.Limits{Connections: tt.most}, tt.files).Connections.Most; got != tt.want {
			t.Errorf("%d connections and %d files make %d, want %d", tt.most, tt.files, got, tt.want)
		}
	}
}

// A connection without a stream is sent away after some time, over gRPC as over REST.
func TestIdleTime_LIM1(t *testing.T) {
	if got := newAges(0).keepalive(config.Default().Server.Keepalive).MaxConnectionIdle; got != idleTime {
		t.Errorf("a connection may be idle for %v", got)
	}
}
