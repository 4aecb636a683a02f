package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// The newest names are left out of a request that would pass the limit. No request passes it, names
// that were said stay, a request that would say nothing new is not sent, and names come in as
// others go (RES-17).
func TestRES17NewestNamesAreLeftOut(t *testing.T) {
	const limit = 1000
	d := newStateDialect(false)
	var left []string
	told, logged := 0, 0
	d.leftOut = func(_ string, out, in []string) {
		left, told = slices.DeleteFunc(append(left, out...), func(name string) bool { return slices.Contains(in, name) }), told+1
	}
	d.large = func(string, int, int, int, int) { logged++ }
	say := func(s wire.Subscription) (last []string) {
		t.Helper()
		for _, r := range d.subscribe(s, 0, limit) {
			if size := proto.Size(r); size > limit {
				t.Errorf("a request of %d bytes, the limit is %d", size, limit)
			}
			last = d.types[s.TypeURL].last
		}
		return last
	}
	name := func(i int) string { return fmt.Sprintf("%098d", 100-i) } // 100 bytes each; later ones sort first
	var names []string
	for i := range 12 {
		names = append(names, name(i))
	}
	said := say(sub(endpoints, names...))
	if len(said) != 8 || slices.Contains(said, name(8)) || !slices.Equal(left, names[8:]) {
		t.Fatalf("said %d names, left out %q, want the last four", len(said), left)
	}
	if got := say(sub(endpoints, name(12))); got != nil || len(left) != 5 {
		t.Errorf("said %d names again for one that is left out; left out: %d", len(got), len(left))
	}
	if r := d.answer(envelope{typeURL: endpoints, nonce: "nonce", version: "version"}, nil); proto.Size(r) > limit || len(d.types[endpoints].last) != 8 {
		t.Errorf("an answer of %d bytes with %d names", proto.Size(r), len(d.types[endpoints].last))
	}
	if got := d.behind(endpoints); got != nil {
		t.Errorf("said behind the answer: %d", len(got))
	}
	if got := say(sub(endpoints, "*")); !slices.Contains(got, "*") || slices.Contains(left, "*") {
		t.Errorf("a collection is left out: %q", left)
	}
	say(unsub(endpoints, "*"))
	if got := say(unsub(endpoints, name(0))); slices.Contains(got, name(0)) || !slices.Contains(got, name(8)) {
		t.Errorf("said %q, want the first of those that were left out", got)
	}
	say(unsub(endpoints, names[1:8]...))
	if len(left) != 0 || told < 4 || logged != 1 {
		t.Errorf("left out %q; logged %d times", left, logged)
	}
}

// A server that takes no larger message keeps its stream, and the Store is told which names it was
// not asked for (RES-17).
func TestRES17SmallServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1000
		n := newNetwork(t)
		srv := n.serveAnyWith("a", []grpc.ServerOption{grpc.MaxRecvMsgSize(limit)})
		cfg := n.speaking(AggregatedGRPC, "a")
		cfg.MaxRequestSize = limit
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("%098d", i))
		}
		store := newStore(sub(endpoints, names...))
		s := run(t, newUpstream(t, cfg), store, nil)
		as := srv.accept(stateADS)
		asked := len(as.next().GetResourceNames())
		if asked == 0 || asked == len(names) {
			t.Errorf("asked for %d names of %d", asked, len(names))
		}
		as.state(endpoints, "1", "n1", names[0])
		as.next()
		synctest.Wait()
		as.silent()
		if st := s.Status(); st.State != StateConnected || st.Lost != 0 {
			t.Errorf("status %+v", st)
		}
		store.get(func(s *memStore) {
			if !slices.Equal(s.leftOut[endpoints], names[asked:]) {
				t.Errorf("left out %d names of %d, asked for %d", len(s.leftOut[endpoints]), len(names), asked)
			}
		})
	})
}

// A request without any name would ask for everything (SUB-2): none is sent if no name has room.
func TestSUB2RES17NoRoomForAnyName(t *testing.T) {
	d := newStateDialect(false)
	if got := d.subscribe(sub(clusters, fmt.Sprintf("%0200d", 1)), 0, 100); got != nil {
		t.Errorf("said %q", said(got))
	}
}

// What was said stays said, whatever comes later.
func TestRES17NoNameIsTakenBack(t *testing.T) {
	const limit = 1000
	name := func(i int) string { return fmt.Sprintf("%098d", i) } // 100 bytes each in a request
	for what, c := range map[string]struct {
		first int // names
		then  []wire.Subscription
	}{
		"more names, where no room was spare": {9, []wire.Subscription{sub(endpoints, name(10), name(11))}},
		"globs": {8, []wire.Subscription{
			sub(endpoints, "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/"+strings.Repeat("x", 100)+"/*", name(10)),
		}},
		"a name that is asked for anew": {8, []wire.Subscription{sub(endpoints, name(10), name(11)), unsub(endpoints, name(0)), sub(endpoints, name(0))}},
	} {
		d := newStateDialect(false)
		d.leftOut, d.large = func(_ string, _, _ []string) {}, func(string, int, int, int, int) {}
		var names []string
		for i := range c.first {
			names = append(names, name(i))
		}
		d.begin()
		d.subscribe(sub(endpoints, names...), 0, limit)
		d.begin()
		for _, s := range c.then {
			for _, r := range d.subscribe(s, 0, limit) {
				if size := proto.Size(r); size > limit {
					t.Errorf("%s: a request of %d bytes", what, size)
				}
			}
		}
		for _, n := range names {
			if !slices.Contains(d.types[endpoints].last, n) {
				t.Errorf("%s: %s is not asked for any more", what, n[90:])
			}
		}
	}
}
