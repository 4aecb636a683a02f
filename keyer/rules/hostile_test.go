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
		{"loop in a loop", `node.metadata.list.exists(a, node.metadata.list.exists(b, a + "x" == b))`, "too much work: the work for one client is limited"},
		{"loop over all", `node.metadata.list.all(a, a != "b")`, "too much work: the work for one client is limited"},
		{"growing text", `[1, 2, 3, 4, 5, 6, 7, 8].map(i, node.metadata.text + node.metadata.text).size() == 1`, "too much work: the work for one client is limited"},
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
	if err != nil || d.Scope != `last["sidecar"]` || d.Node.GetId() != "x" || d.Node.GetMetadata().GetFields()["role"] != node.GetMetadata().GetFields()["role"] {
		t.Fatalf("Decide: scope %s, %v", d.Scope, err)
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

// OPS-5: what a name takes in proportion to a node of megabytes is not done for each of a
// hundred thousand: the client is isolated then. The measure is work, not time.
func TestOPS5WorkForNamesIsBounded(t *testing.T) {
	node := hostile(t)
	list := node.Metadata.Fields["list"].GetListValue()
	list.Values = list.Values[:50_000]
	const most, names = 400, 1_000 // how many are decided before it is too much
	for _, tc := range []struct {
		name string
		rule rules.Rule
	}{
		{"a list is searched", rules.Rule{Match: `type == rds && name in node.metadata.list`}},
		{"lists are equal", rules.Rule{Match: `type == rds && name != "*" && node.metadata.list == node.metadata.list`}},
		{"text is searched", rules.Rule{Match: `type == rds && node.metadata.text.contains(name)`}},
		{"parts are large", rules.Rule{Match: `type == rds && name != "*"`, Scope: []string{"node.metadata.text"}}},
		{"what is built is large", rules.Rule{Match: `type == rds && name != "*"`, Node: rules.Node{Metadata: map[string]string{"text": "node.metadata.text"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.rule.Name = "r"
			subject := compile(t, rules.Config{Otherwise: rules.Share, Rules: []rules.Rule{tc.rule}}).Subject(node, keyer.Peer{})
			if _, byName, err := subject.Decide(routeURL); !byName || err != nil {
				t.Fatal(byName, err)
			}
			failed := 0
			for i := range names {
				d, err := subject.DecideName(routeURL, fmt.Sprint("none-", i))
				if err != nil {
					t.Fatal(err)
				}
				if d.Failed == nil {
					continue
				}
				failed++
				if !strings.HasSuffix(d.Failed.Error(), ": too much work: the work for one client is limited") || !strings.HasPrefix(d.Scope, "isolated-") {
					t.Fatalf("OPS-5: %v, in scope %s", d.Failed, d.Scope)
				}
			}
			if failed < names-most {
				t.Errorf("OPS-5: %d of %d names were decided, want at most %d", names-failed, names, most)
			}
		})
	}
}

// OPS-5: a client with a node of common size is decided for all names that it may have.
func TestOPS5OrdinaryNamesAreDecided(t *testing.T) {
	set := compile(t, rules.Config{Rules: []rules.Rule{
		{Name: "first", Match: `type == rds && name.startsWith("x/") && node.metadata.role == "gateway"`},
		{
			Name: "shards", Match: `type == rds && name.matches("^shard-[0-9]+/") && name in node.metadata.names`,
			Scope: []string{`name.split("/")[0]`, "node.metadata.labels", `regex.replace(name, "/.*$", "")`},
			Node:  rules.Node{ID: `"relay-" + name`, Metadata: map[string]string{"labels": "node.metadata.labels"}},
		},
	}})
	node := sidecar(t)
	wanted := &structpb.ListValue{}
	for i := range 100 {
		wanted.Values = append(wanted.Values, structpb.NewStringValue(fmt.Sprintf("shard-%d/a", i)))
	}
	node.Metadata.Fields["names"] = structpb.NewListValue(wanted)
	client := set.Subject(node, keyer.Peer{})
	for i := range 20_000 {
		if d, err := client.DecideName(routeURL, fmt.Sprintf("shard-%d/a", i%100)); err != nil || d.Rule != "shards" {
			t.Fatalf("OPS-5: name %d: %+v, %v", i, d, err)
		}
	}
}
