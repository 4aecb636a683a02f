package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// wholeList is a list of the state of the world, in the words of package words.
func wholeList(words ...string) *wire.Response {
	r := response(words...)
	r.TypeURL, r.State = cds, true
	return r
}

// What a list lacks are the names that it would remove (RES-8).
func TestLacks_RES8(t *testing.T) {
	for name, tc := range map[string]struct {
		list    *wire.Response
		want    []string
		repeats bool
	}{
		"nothing":             {wholeList("+a@1", "+b@1", "+c@2"), nil, true},
		"what did not change": {wholeList("+a@2"), []string{"b", "c"}, false},
		"one of a whole list": {wholeList("+a@1", "+b@2"), []string{"c"}, true},
		"all":                 {wholeList(), []string{"a", "b", "c"}, false},
		"but what failed": {&wire.Response{
			TypeURL: cds, State: true, Resources: response("+a@2").Resources, Errors: []wire.ResourceError{{Name: "b", Code: codes.Unavailable}},
		}, []string{"c"}, false},
		"a bad list":     {wholeList("+a@1", "+a@2"), nil, false},
		"a partial list": {&wire.Response{TypeURL: cds, State: true, Partial: true}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := asked(t, Source{State: true}, "a", "b", "c", "none")
			k.apply(WholeType, wholeList("+a@1", "+b@1", "+c@1"))
			got, repeats := k.store.Session().Lacks(stream(WholeType), tc.list)
			if slices.Sort(got); !slices.Equal(got, tc.want) || repeats != tc.repeats {
				t.Errorf("it lacks %q and repeats something: %t; want %q, %t", got, repeats, tc.want, tc.repeats)
			}
			k.is("a", Present, "1")
			k.check()
		})
	}
}

// A list of "*" lacks nothing that can be asked for by name.
func TestWildcardLacksNothing_RES8(t *testing.T) {
	k := newKeptOf(t, Source{Quiet: time.Second, State: true})
	k.listener(NeedsStream).follow(Wildcard)
	k.demand(WholeType)
	k.apply(WholeType, wholeList("+a@1", "+b@1"))
	if got, _ := k.store.Session().Lacks(stream(WholeType), wholeList("+a@2")); got != nil {
		t.Errorf("it lacks %q", got)
	}
}

// A partial list removes what it says, and nothing else. The guard judges that as it judges what a whole list lacks
// (RES-8, SUR-3).
func TestPartialList_RES8_SUR3(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		source := Source{State: true}
		if guarded {
			source.Guard = hold.Guard{Share: 0.5, AtLeast: 2, Hold: time.Minute}
		}
		k := asked(t, source, "a", "b", "c", "none")
		k.apply(WholeType, wholeList("+a@1", "+b@1", "+c@1"))
		partial := wholeList("+a@2")
		partial.Partial = true
		k.apply(WholeType, partial)
		k.is("a", Present, "2")
		k.is("b", Present, "1")
		k.is("c", Present, "1")
		partial = wholeList()
		partial.Partial, partial.Removed = true, []string{"b", "c", "none", "unknown"}
		k.apply(WholeType, partial)
		k.is("a", Present, "2")
		if held := k.store.FindTable(cds, ByName).upstream.held.any(); held != guarded {
			t.Errorf("guarded %t, held %t", guarded, held)
		}
		if !guarded {
			k.is("b", Absent, "")
			k.is("c", Absent, "")
		}
	}
}
