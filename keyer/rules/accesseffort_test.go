package rules

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// A stream that is open for weeks has the same names judged with each change. However much one
// evaluation takes, what it said once stays.
func TestAccess_ACC2_OPS5_decisionsLastHoweverOftenTheyAreAsked(t *testing.T) {
	s := laborious(t)
	for range 300 {
		for i := range 50 {
			if d := s.Name(clusters, fmt.Sprintf("team-299/%d", i)); !d.Allowed {
				t.Fatalf("the name is denied now: %+v", d)
			}
		}
	}
	for i := range 100_000 { // the work for one client is limited all the same
		if d := s.Name(clusters, fmt.Sprintf("team-299/other-%d", i)); !d.Allowed {
			holds(t, s.Name(clusters, "team-299/0").Allowed, "what was decided before stays")
			same(t, d, s.Name(clusters, fmt.Sprintf("team-299/other-%d", i)))
			return
		}
	}
	t.Error("the work has no limit")
}

// laborious is a client whose node has each name take much work.
func laborious(t *testing.T) *AccessSubject {
	t.Helper()
	var prefixes []any
	for i := range 300 {
		prefixes = append(prefixes, fmt.Sprintf("team-%d/", i))
	}
	metadata, err := structpb.NewStruct(map[string]any{"prefixes": prefixes})
	if err != nil {
		t.Fatal(err)
	}
	a, problems := CompileAccess(AccessConfig{Rules: []AccessRule{
		{Name: "own", Match: `node.metadata.prefixes.exists(p, name.startsWith(p))`, Allow: true},
	}})
	none(t, problems)
	return a.Subject(&corev3.Node{Id: "n1", Metadata: metadata}, keyer.Peer{})
}

// What is remembered of a client has a bound in bytes, whatever names it has judged, of however many types (LIM-3).
func TestAccess_LIM3_decisionsTakeLittleMemory(t *testing.T) {
	s := laborious(t)
	long := strings.Repeat("n", 2<<10)
	_, took := kept(func() any {
		for of := range 4 {
			typeURL := fmt.Sprint(clusters, of)
			for i := range 100_000 {
				s.known.note(typeURL, fmt.Sprint(i, long), AccessDecision{Allowed: i%2 == 0, Rule: "own", Failed: fmt.Sprint(i % 1000)}, nil, effortPerEval+1, false)
			}
		}
		return nil
	})
	if took > 4<<20 {
		t.Errorf("400,000 names have %d KiB kept", took>>10)
	}
	runtime.KeepAlive(s)
}

// Once the work is used up nothing more is kept: it is one fact about all names that come.
func TestAccess_OPS5_workThatIsUsedUpIsOneFact(t *testing.T) {
	s := laborious(t)
	s.Name(clusters, "team-299/first")
	s.client.effort.spent = 1 << 40
	for i := range 1000 {
		d := s.Name(fmt.Sprint(clusters, i%10), fmt.Sprint("team-299/", i))
		if d.Allowed || !strings.Contains(d.Failed, "too much work") {
			t.Fatalf("the name %d gets %+v", i, d)
		}
	}
	same(t, 1, len(s.known.names))
	s.client.effort = effort{} // as time goes by
	holds(t, s.Name(clusters, "team-299/first").Allowed, "what was decided before stays")
	holds(t, !s.Name(clusters, "team-299/5").Allowed, "what there was no work for stays denied")
}

// A name that the client does not subscribe to any more is forgotten, with its alternatives, whatever their spelling.
func TestAccess_LIM3_namesAreForgotten(t *testing.T) {
	s := laborious(t)
	const xdstp = "xdstp://a/envoy.config.cluster.v3.Cluster/"
	for _, name := range []string{"team-299/a", xdstp + "x?b=1&a=2", xdstp + "x#alt=" + xdstp + "y"} {
		s.Subscription(clusters, name)
		holds(t, len(s.known.names) > 0, "it is remembered: "+name)
		s.Forget(clusters, name)
		same(t, 0, len(s.known.names), name)
	}
}
