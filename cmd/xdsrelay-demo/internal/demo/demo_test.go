package demo

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// The whole demo, small: OPS-1, RES-12, SUB-10 and the design's first invariant
// over real connections.
func TestConverges(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s, err := Run(t.Context(), Options{
		Clients: 20, ClientsPerConnection: 1, Duration: 3 * time.Second, Screen: NewLines(&out),
	})
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + s.String())
	if !s.Converged || s.Interrupted {
		t.Errorf("converged: %t, interrupted: %t", s.Converged, s.Interrupted)
	}
	if s.Clients.Total != 22 || s.Outage.Joined != 2 || s.Clients.StreamsLost != 0 {
		t.Errorf("%d clients, of which %d joined and %d lost their stream; expected 22, 2 and 0",
			s.Clients.Total, s.Outage.Joined, s.Clients.StreamsLost)
	}
	if s.Upstream.Streams != 1 || s.Upstream.StreamsOpened != 2 || s.Upstream.Subscriptions != 1+clusterCount+lateCount {
		t.Errorf("upstream: %+v, expected one stream at a time, two in total, and each name once", s.Upstream)
	}
	if s.FanOut < 2 || s.Propagation.Count == 0 || s.Outage.Recovery == 0 || s.Delivered.Unrequested != 0 {
		t.Errorf("not what was played: %+v", s)
	}
}

// A client that does not follow is found.
func TestReportsWhatDidNotConverge(t *testing.T) {
	t.Parallel()
	const broken = 3
	var out bytes.Buffer
	s, err := Run(t.Context(), Options{
		Clients: 20, ClientsPerConnection: 1, Duration: 1500 * time.Millisecond, Screen: NewLines(&out),
		reject: func(client int, r *xdsclient.Response) error {
			late := func(c xdsclient.Change) bool { return c.Name == name(clusterCount) } // comes when the control plane is back
			if client == broken && r.TypeURL == clusterType && slices.ContainsFunc(r.Changes, late) {
				return errors.New("not for me")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Converged || s.Clients.Converged != s.Clients.Total-1 || len(s.Differences) == 0 {
		t.Fatalf("%d of %d clients converged, %d differences", s.Clients.Converged, s.Clients.Total, len(s.Differences))
	}
	for _, d := range s.Differences {
		if d.Client != broken || d.TypeURL != clusterType {
			t.Errorf("a difference of another: %s", d)
		}
	}
	for text, in := range map[string]string{"do not hold": out.String(), "client 3: Cluster cluster-": s.String()} {
		if !strings.Contains(in, text) {
			t.Errorf("nothing says %q in:\n%s", text, in)
		}
	}
}

// An interrupted demo ends early, with a summary and without anything left over.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	screen := screenFunc(func(s Snapshot) {
		if s.Phase == Updates && s.DeliveryRate > 0 {
			cancel()
		}
	})
	s, err := Run(ctx, Options{Clients: 5, ClientsPerConnection: 2, Duration: time.Hour, Screen: screen})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Interrupted || !s.Converged || s.Clients.Total != 5 {
		t.Errorf("interrupted: %t, converged: %t, %d clients", s.Interrupted, s.Converged, s.Clients.Total)
	}
}

type screenFunc func(Snapshot)

func (f screenFunc) Draw(s Snapshot) { f(s) }

func TestBadOptions(t *testing.T) {
	for _, spoil := range []func(*Options){
		func(o *Options) { o.Clients = 0 },
		func(o *Options) { o.ClientsPerConnection = 0 },
		func(o *Options) { o.Duration = time.Millisecond },
		func(o *Options) { o.Relay = "nowhere" },
		func(o *Options) { o.Admin = "127.0.0.1:99999" },
	} {
		o := DefaultOptions()
		spoil(&o)
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v was played", o)
		}
	}
}

func TestAffordable(t *testing.T) {
	for _, test := range []struct {
		clients, perConnection int
		limit                  uint64
		least, most            int
	}{
		{1000, 1, 1 << 20, 1000, 1000},
		{1000, 1, 1024, 420, 437},
		{1000, 10, 1024, 1000, 1000},
		{1000, 1, 3, 1, 1},
	} {
		if n := affordable(test.clients, test.perConnection, test.limit); n < test.least || n > test.most {
			t.Errorf("%d of %d clients, %d per connection, with %d files; expected %d to %d",
				n, test.clients, test.perConnection, test.limit, test.least, test.most)
		}
	}
}
