package relay

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// endpoints gives the server of each scope that has a stream.
func (r *running) endpoints() map[string]string {
	at := make(map[string]string)
	for _, s := range r.relay.hub.all() {
		if st := s.client.Status(); st.Streams > 0 {
			at[s.key.scope] = st.Endpoint
		}
	}
	return at
}

// until waits until the scopes are where they should be.
func (r *running) until(what string, is func(at map[string]string) bool) (at map[string]string) {
	r.Helper()
	if _, held := wait.Until(patience, func() bool {
		r.page("/upstreams") // may be asked for at any time
		at = r.endpoints()
		return is(at)
	}); !held {
		r.Fatalf("never: %s: %v", what, at)
	}
	return at
}

// A hundred clients that share with nobody spread over three replicas. Of the death of a
// replica, and its return, they see nothing; only its scopes move.
func TestLOC6_SpreadOverReplicas(t *testing.T) {
	const clients = 100
	has := contents{"x": "1", "y": "1"}
	var planes []*planeServer
	u := upstreamAt("a", "")
	u.Failback, u.Endpoints = config.Duration(time.Second), [][]string{nil}
	for range 3 {
		p := newPlaneServer(t, has)
		planes, u.Endpoints[0] = append(planes, p), append(u.Endpoints[0], p.address)
	}
	r := run(t, configOf(u))
	var followers []*follower
	for i := range clients {
		followers = append(followers, r.join(fmt.Sprint("node-", i)))
	}
	for _, f := range followers {
		f.holds(has)
	}
	first := r.until("streams of all scopes", func(at map[string]string) bool { return len(at) == clients })
	even := func(at map[string]string, least, most int) {
		t.Helper()
		sums := make(map[string]int)
		for _, address := range at {
			sums[address]++
		}
		for _, p := range planes {
			if n := sums[p.address]; n < least || n > most {
				t.Errorf("scopes by replica: %v, want %d to %d each", sums, least, most)
			}
		}
	}
	even(first, 25, 42)

	dead := planes[1]
	dead.Stop()
	after := r.until("streams elsewhere", func(at map[string]string) bool {
		for _, address := range at {
			if address == dead.address {
				return false
			}
		}
		return len(at) == clients
	})
	for scope, address := range first {
		if address != dead.address && after[scope] != address {
			t.Errorf("%s moved from %s to %s", scope, address, after[scope])
		}
	}
	r.shows("/upstreams", `"unreachable_since"`)
	r.shows("/metrics", `xdsrelay_upstream_replicas{upstream="a"} 3`, `xdsrelay_upstream_replicas_unreachable{upstream="a"} 1`,
		`xdsrelay_upstream_replica_sessions_min{upstream="a"} 0`)

	newPlaneServerAt(t, dead.address, has)
	r.until("streams where they were", func(at map[string]string) bool { return maps.Equal(at, first) })
	for i, f := range followers {
		f.stop()
		if f.sent != len(has) || f.away > 0 || len(f.gone) > 0 {
			t.Errorf("client %d was sent %d resources, and away %d times; it lost %v", i, f.sent, f.away, f.gone)
		}
	}
	r.check()
}

// Sessions of one scope with different tokens are spread by these.
func TestLOC6_KeysOfSessions(t *testing.T) {
	keys := []sessionKey{{scope: "a"}, {scope: "b"}, {scope: "a", basis: "b"}, {scope: "a", forwarded: "b"}, {scope: "a", forwarded: "c"}}
	seen := make(map[string]bool)
	for _, k := range keys {
		seen[k.text()] = true
	}
	if len(seen) != len(keys) {
		t.Errorf("%d keys of %d sessions: %v", len(seen), len(keys), seen)
	}
}
