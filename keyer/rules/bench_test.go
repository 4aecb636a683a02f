package rules_test

import (
	"fmt"
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// fleet is rules of which the last one matches a sidecar, after all have been asked.
func fleet(b *testing.B, n int) *rules.Set {
	b.Helper()
	list := make([]rules.Rule, n)
	for i := range list {
		list[i] = rules.Rule{
			Name:  fmt.Sprintf("team-%d", i),
			Match: fmt.Sprintf(`node.metadata.role == "sidecar" && type in [lds, cds] && node.id.matches("^gw-web-%d7$")`, n-i),
			Scope: []string{"node.cluster", "node.locality.zone"},
		}
	}
	return compile(b, rules.Config{Rules: list})
}

// BenchmarkDecide is what a stream pays, once per type: the last of so many rules decides.
func BenchmarkDecide(b *testing.B) {
	node, peer := sidecar(b), keyer.Peer{SPIFFE: "spiffe://td/web"}
	const listenerURL = "type.googleapis.com/envoy.config.listener.v3.Listener"
	for _, n := range []int{1, 10, 100} {
		set := fleet(b, n)
		want := fmt.Sprintf(`team-%d["web","eu-1a"]`, n-1)
		b.Run(fmt.Sprintf("rules=%d/first", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, _, err := set.Subject(node, peer).Decide(clusterURL); err != nil || d.Scope != want {
					b.Fatal(d, err)
				}
			}
		})
		b.Run(fmt.Sprintf("rules=%d/second", n), func(b *testing.B) {
			subject := set.Subject(node, peer)
			_, _, _ = subject.Decide(clusterURL)
			b.ReportAllocs()
			for b.Loop() {
				if d, _, err := subject.Decide(listenerURL); err != nil || d.Scope != want {
					b.Fatal(d, err)
				}
			}
		})
	}
}

// BenchmarkDecideName is what a subscription pays where a rule looks at names.
func BenchmarkDecideName(b *testing.B) {
	subject := compile(b, rules.Config{Rules: []rules.Rule{
		{Name: "shards", Match: `type == rds && name.matches("^shard-[0-9]+/")`, Scope: []string{`name.split("/")[0]`}},
	}}).Subject(sidecar(b), keyer.Peer{})
	b.ReportAllocs()
	for b.Loop() {
		if d, err := subject.DecideName(routeURL, "shard-17/a"); err != nil || d.Scope != `shards["shard-17"]` {
			b.Fatal(d, err)
		}
	}
}

// BenchmarkOtherwise is what a stream pays without rules.
func BenchmarkOtherwise(b *testing.B) {
	node := sidecar(b)
	for _, p := range []rules.Policy{rules.Isolate, rules.Share} {
		b.Run(p.String(), func(b *testing.B) {
			set := compile(b, rules.Config{Otherwise: p})
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = set.Subject(node, keyer.Peer{}).Decide(clusterURL)
			}
		})
	}
}

// BenchmarkCompile is what a reload pays.
func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		fleet(b, 100)
	}
}
