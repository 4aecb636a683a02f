package rules_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// hostile is a client with as much metadata as a message can carry.
func hostile(t testing.TB) *corev3.Node {
	t.Helper()
	node := sidecar(t)
	list := &structpb.ListValue{}
	for i := range 100_000 {
		list.Values = append(list.Values, structpb.NewStringValue(fmt.Sprint("value-", i)))
	}
	node.Metadata.Fields["list"] = structpb.NewListValue(list)
	deep := structpb.NewStringValue("x")
	for range 9_000 {
		deep = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": deep}})
	}
	node.Metadata.Fields["deep"] = deep
	node.Metadata.Fields["text"] = structpb.NewStringValue(strings.Repeat("a", 1<<20))
	return node
}

// OPS-5: whatever a client sends, a rule stops working on it, and the client is isolated.
func TestOPS5WorkIsBounded(t *testing.T) {
	node := hostile(t)
	for _, tc := range []struct{ name, match, want string }{
		{"loop in a loop", `node.metadata.list.exists(a, node.metadata.list.exists(b, a + "x" == b))`, "too much to go through: there is a limit to the work for one client"},
		{"loop over all", `node.metadata.list.all(a, a != "b")`, "too much to go through: there is a limit to the work for one client"},
		{"growing text", `[1, 2, 3, 4, 5, 6, 7, 8].map(i, node.metadata.text + node.metadata.text).size() == 1`, "too much to go through: there is a limit to the work for one client"},
		{"regular expression", `node.metadata.text.matches("(a|aa)+$")`, "a text of 1048576 bytes is too long for a regular expression: at most 16384"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := compile(t, rules.Config{Otherwise: rules.Share, Rules: []rules.Rule{{Name: "r", Match: tc.match}}})
			d, _, err := set.Subject(node, keyer.Peer{}).Decide(clusterURL)
			if want := fmt.Sprintf(`aggregation rule "r" fails: match: %s: %s`, tc.match, tc.want); err != nil || d.Failed == nil || d.Failed.Error() != want {
				t.Errorf("OPS-5: %v, %v, want %s", d.Failed, err, want)
			}
		})
	}
}

// OPS-5: rules that look at a key of the metadata do not copy the rest of it.
func TestOPS5MetadataIsNotCopied(t *testing.T) {
	node := hostile(t)
	var list []rules.Rule
	for i := range 100 {
		list = append(list, rules.Rule{Name: fmt.Sprint("r", i), Match: fmt.Sprintf(`node.metadata.role == "x%d"`, i)})
	}
	list = append(list, rules.Rule{Name: "last", Match: "true", Scope: []string{"node.metadata.role"}, Node: rules.Node{ID: `"x"`}})
	set := compile(t, rules.Config{Rules: list})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, _, err := set.Subject(node, keyer.Peer{}).Decide(clusterURL)
	runtime.ReadMemStats(&after)
	if err != nil || d.Scope != `last["sidecar"]` || d.Node.GetId() != "x" || d.Node.GetMetadata() != node.GetMetadata() {
		t.Fatalf("Decide = %+v, %v", d, err)
	}
	const most = 256 << 10 // of some 4 MiB
	if used := after.TotalAlloc - before.TotalAlloc; used > most {
		t.Errorf("OPS-5: a decision takes %d bytes, want at most %d", used, most)
	}
}

// A set may be asked from any goroutine.
func TestDecideConcurrently(t *testing.T) {
	set := compile(t, rules.Config{Rules: []rules.Rule{
		{Name: "a", Match: `type == rds && name.matches("^a")`, Scope: []string{`regex.replace(node.id, "[0-9]", "")`}},
		{Name: "b", Match: `node.client_features.all(f, f != "x")`, Scope: []string{"node.metadata.labels", "peer.dns"}},
	}})
	node, peer := sidecar(t), keyer.Peer{DNS: []string{"web"}}
	done := make(chan error)
	const many = 8
	for range many {
		go func() {
			for range 100 {
				subject := set.Subject(node, peer)
				if d, err := subject.DecideName(routeURL, "a"); err != nil || d.Scope != `a["gw-web-"]` {
					done <- fmt.Errorf("%+v, %w", d, err)
					return
				}
				if d, _, err := subject.Decide(clusterURL); err != nil || d.Scope != `b[{"app":"web"},["web"]]` {
					done <- fmt.Errorf("%+v, %w", d, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range many {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
