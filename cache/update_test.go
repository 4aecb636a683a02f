package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// An error without a name is that of the name "" where a client asks for that, and of "*" elsewhere. An error of "*" by its
// name never is that of "" (NAME-9, ERR-1).
func TestErrorsWithoutName_NAME9_ERR1(t *testing.T) {
	for _, tc := range []struct {
		name    string
		kind    Kind
		spelled string
		watched string
		failed  bool // the name ""
	}{
		{"a client asks for it", ByName, "", "", true},
		{"a client asks for another name", ByName, "", "a", false},
		{"the error is of the wildcard", ByName, Wildcard, "", false},
		{"it is a member", WholeType, "", "", false},
	} {
		k := newKept(t)
		l := k.listener(NeedsStream)
		if tc.kind == WholeType {
			l.follow(Wildcard)
		} else {
			l.watch(tc.watched)
		}
		k.demand(WholeType)
		if tc.kind == WholeType {
			k.says(WholeType, "+@1")
		}
		k.apply(WholeType, &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{{Name: tc.spelled, Code: codes.Internal}}})
		e := k.store.FindTable(cds, tc.kind).Find("")
		if failed := e != nil && e.extra.err != nil; failed != tc.failed {
			t.Errorf("%s: \"\" has the error: %t", tc.name, failed)
		}
	}
}

// A response with nothing but errors that leave their names open is no answer.
func TestOnlyDelays_RES2_ERR1(t *testing.T) {
	later, never := wire.ResourceError{Code: codes.Unavailable}, wire.ResourceError{Code: codes.NotFound}
	one := []string{"a"}
	for name, tc := range map[string]struct {
		update update
		want   bool
	}{
		"a delay":             {update{response: &wire.Response{Errors: []wire.ResourceError{later}}}, true},
		"nothing":             {update{response: &wire.Response{}}, false},
		"the end":             {update{response: &wire.Response{Errors: []wire.ResourceError{never}}}, false},
		"both":                {update{response: &wire.Response{Errors: []wire.ResourceError{later, never}}}, false},
		"the list of all":     {update{response: &wire.Response{Errors: []wire.ResourceError{later}, Complete: true}}, false},
		"beside a resource":   {update{response: &wire.Response{Errors: []wire.ResourceError{later}}, keys: one}, false},
		"beside a removal":    {update{response: &wire.Response{Errors: []wire.ResourceError{later}}, removed: one}, false},
		"beside both of them": {update{response: &wire.Response{Errors: []wire.ResourceError{later}}, keys: one, removed: one}, false},
		"beside a removal of a variant": {update{
			response: &wire.Response{Errors: []wire.ResourceError{later}}, variantUpdate: variantUpdate{removals: make([]variantRemoval, 1)},
		}, false},
		"beside a variant that replaces another one": {update{
			response: &wire.Response{Errors: []wire.ResourceError{later}}, keys: one, variantUpdate: variantUpdate{removals: make([]variantRemoval, 1)},
		}, false},
	} {
		if got := onlyDelays(&tc.update); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A removal of a variant with a bad name, or bad constraints, removes nothing. The rest of the response counts (ACK-6).
func TestBadRemovals_ACK6_DYN1(t *testing.T) {
	good := wire.Variant{Name: "x", Constraints: words.Encode(words.Constraints("env=prod"))}
	for name, bad := range map[string]wire.Variant{
		"constraints": {Name: "x", Constraints: "\xff"},
		"name":        {Name: "\x00x", Constraints: good.Constraints},
		"both":        {Name: "\x00x", Constraints: "\xff"},
	} {
		u, err := newUpdate(&wire.Response{TypeURL: cds, RemovedVariants: []wire.Variant{bad, good}}, time.Now())
		if err != nil || len(u.removals) != 1 || u.removals[0].key != "x" || u.removals[0].constraints == nil || len(u.bad) == 0 {
			t.Errorf("bad %s: %+v, %v", name, u, err)
		}
	}
}

// A response that names something twice is rejected. Variants are told apart by their constraints (ACK-6).
func TestTwice_ACK6_DYN1(t *testing.T) {
	prod, plain := words.Variant(cds, "x[env=prod]@1"), words.Resource(cds, "x@1")
	removed := wire.Variant{Name: "x", Constraints: words.Encode(words.Constraints("env=prod"))}
	for name, tc := range map[string]struct {
		response wire.Response
		twice    bool
	}{
		"plain and variant":                  {wire.Response{Resources: []*wire.Resource{prod, plain}}, false},
		"variant twice":                      {wire.Response{Resources: []*wire.Resource{prod, prod}}, true},
		"plain twice beside a variant":       {wire.Response{Resources: []*wire.Resource{plain, prod, plain}}, true},
		"variant and its removal":            {wire.Response{Resources: []*wire.Resource{prod}, RemovedVariants: []wire.Variant{removed}}, true},
		"variant and removal of the name":    {wire.Response{Resources: []*wire.Resource{prod}, Removed: []string{"x"}}, false},
		"plain and its removal by a variant": {wire.Response{Resources: []*wire.Resource{plain}, RemovedVariants: []wire.Variant{removed}}, false},
		"plain and its removal":              {wire.Response{Resources: []*wire.Resource{plain, prod}, Removed: []string{"x"}}, true},
		"two bad variants": {wire.Response{Resources: []*wire.Resource{
			words.Variant(cds, "xdstp://%[env=prod]@1"), words.Variant(cds, "xdstp://%[env=prod]@2"), prod,
		}}, false},
	} {
		tc.response.TypeURL = cds
		if _, err := newUpdate(&tc.response, time.Now()); (err != nil) != tc.twice {
			t.Errorf("%s: %v", name, err)
		}
	}
}
