package controlplanes

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
	"github.com/xdsrelay/xdsrelay/relay"
)

// relayRun is a relay that runs a recipe, in the process of the tests.
type relayRun struct {
	addr, rest, admin string
}

// startRelay runs a recipe in front of a control plane. change gives it the files and the
// times of the test.
func startRelay(t *testing.T, recipe, addr string, change func(*config.Config)) *relayRun {
	t.Helper()
	c, err := config.Load("../../examples/control-planes/"+recipe, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Upstreams[0].Endpoints = config.Endpoints{{addr}}
	c.Server.Drain = config.Duration(10 * time.Millisecond)
	if change != nil {
		change(c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	log := new(logtest.Text)
	r := relays.Run(t, c, relay.Options{Version: "test", Log: slog.New(slog.NewTextHandler(log, nil))}, relays.Listeners{REST: ports.Listen(t)})
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			t.Logf("the relay logged:\n%s", log)
		}
	})
	return &relayRun{addr: r.XDS, rest: r.REST, admin: "http://" + r.Admin}
}

// sessions counts the scopes that have clients, and the streams of all scopes to the control
// plane.
func (r *relayRun) sessions(t *testing.T) (scopes, streams int) {
	t.Helper()
	_, page := relays.Page(t, r.admin+"/upstreams")
	var upstreams []struct {
		Sessions []struct {
			Clients int `json:"clients"`
			Streams int `json:"streams"`
		} `json:"sessions"`
	}
	if err := json.Unmarshal([]byte(page), &upstreams); err != nil {
		t.Fatal(err)
	}
	for _, u := range upstreams {
		for _, s := range u.Sessions {
			if s.Clients > 0 {
				scopes++
				streams += s.Streams
			}
		}
	}
	return scopes, streams
}
