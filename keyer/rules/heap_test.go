package rules

import (
	"runtime"
	"testing"
	"weak"

	"cel.dev/cel-go/cel"
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

// Rules hold the environment, and share it with all that is compiled later.
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
