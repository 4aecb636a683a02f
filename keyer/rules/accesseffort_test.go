package rules

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// A stream that is open for weeks has the same names judged with each change. However much one
// evaluation takes, what it said once stays.
func TestAccess_ACC2_OPS5_decisionsLastHoweverOftenTheyAreAsked(t *testing.T) {
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
	s := a.Subject(&corev3.Node{Id: "n1", Metadata: metadata}, keyer.Peer{})
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
