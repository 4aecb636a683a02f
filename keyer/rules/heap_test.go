package rules

import (
	"runtime"
	"testing"
	"weak"

	"cel.dev/cel-go/cel"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// kept gives the bytes of the heap that something takes for as long as it is there.
func kept[T any](load func() T) (of T, bytes int64) {
	inUse := func() int64 {
		for range 3 { // what is reached weakly goes with the second, and what lies in pools too
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	of = load()
	return of, inUse() - before
}

// Of rules that only compare texts nothing of CEL is kept, and no environment: not when they are
// compiled, nor when the configuration is checked, nor when clients join.
func TestAccess_ACC2_plainRulesKeepNothingOfCEL(t *testing.T) {
	load := func() *Access {
		a, problems := CompileAccess(AccessConfig{Rules: fleetRules()})
		none(t, problems)
		same(t, 9, a.AllowsUnknown(clusters, ""))
		for range 10 {
			_, known := a.Plainly(&corev3.Node{Id: "client-1", Cluster: "bench"}, new(keyer.Peer), clusters)
			holds(t, known)
			a.Subject(&corev3.Node{Id: "client-2"}, keyer.Peer{}).Type(clusters)
		}
		return a
	}
	load() // what CEL's parser keeps of its own, once
	const most = 32 << 10
	a, bytes := kept(load)
	t.Logf("ten rules take %d bytes", bytes)
	if bytes > most {
		t.Errorf("ten rules take %d bytes, at most %d are expected", bytes, most)
	}
	env, bytes := kept(func() any {
		env, err := environment()
		holds(t, err == nil)
		return env
	})
	t.Logf("an environment takes %d bytes", bytes)
	holds(t, bytes > 2*most, "the measurement does not see an environment")
	runtime.KeepAlive(env)
	runtime.KeepAlive(a)
}

// Where CEL is needed for a plain rule after all, it says what it always did: of a client for which the
// rule fails, of a name that a regular expression is tried on, and in an explanation.
func TestAccess_ACC2_plainRulesAreLeftToCELWhereTheyCannotSay(t *testing.T) {
	a, problems := CompileAccess(AccessConfig{Allow: true, Rules: []AccessRule{
		{Name: "stage", Match: `type == cds && node.metadata.stage == "canary"`},
		{Name: "shards", Match: `name.matches("^shard-[0-9]+$") && node.cluster == "web"`},
	}})
	none(t, problems)
	s := a.Subject(&corev3.Node{Id: "n", Cluster: "web"}, keyer.Peer{})
	d, _ := s.Type(clusters)
	same(t, AccessDecision{Rule: "stage", Failed: `match: type == cds && node.metadata.stage == "canary": no such key: stage`}, d)
	same(t, AccessDecision{Rule: "shards"}, s.Name(secrets, "shard-1"))
	same(t, AccessDecision{Rule: Otherwise, Allowed: true}, s.Name(secrets, "shard-a"))

	metadata := &structpb.Struct{Fields: map[string]*structpb.Value{"stage": structpb.NewStringValue("canary")}}
	s = a.Subject(&corev3.Node{Id: "n", Cluster: "web", Metadata: metadata}, keyer.Peer{})
	results, _, _ := s.Explain(clusters, nil)
	same(t, []RuleResult{
		{Rule: "stage", Result: Matches, Why: `type == cds is true: type is cds; node.metadata.stage == "canary" is true: node.metadata.stage is "canary"`},
		{Rule: "shards", Result: NotReached},
	}, results)
}

// Rules that are evaluated by CEL hold the environment, and share it with all that is compiled later.
func TestEnvironment_ACC2_AGG1_isShared(t *testing.T) {
	set, problems := Compile(Config{Rules: []Rule{{Name: "r", Match: `node.client_features.exists(f, f == "a")`, Scope: []string{"node.cluster"}}}})
	none(t, problems)
	before := inUse.env.Value()
	_, _ = kept(func() any { return nil })
	again, err := environment()
	holds(t, err == nil && again == before && before != nil, "it was made again")
	runtime.KeepAlive(set)
}

// A relay without rules makes no environment.
func TestEnvironment_ACC2_AGG1_isForRulesOnly(t *testing.T) {
	inUse.mu.Lock()
	inUse.env = weak.Pointer[cel.Env]{} // another test may hold one
	inUse.mu.Unlock()
	_, problems := Compile(Config{})
	none(t, problems)
	_, problems = CompileAccess(AccessConfig{})
	none(t, problems)
	_, problems = CompileVerify(nil)
	none(t, problems)
	holds(t, inUse.env.Value() == nil, "it was made")
}
