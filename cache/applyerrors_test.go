package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// A response says by the lack of members that a collection has none: an empty one of "*", or a list of all that there
// is. One that has something else says nothing of that (ERR-1, RES-2).
func TestSaysWhole_ERR1_RES2(t *testing.T) {
	failing := wire.ResourceError{Name: "c", Code: codes.Internal}
	for _, tc := range []struct {
		name       string
		r          *wire.Response
		whole, own bool // of "*", and of a glob
	}{
		{"nothing", response(), true, false},
		{"a resource", response("+a@1"), false, false},
		{"a removal", response("-a"), false, false},
		{"an error", &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{failing}}, false, false},
		{"a resource and a removal", response("+a@1", "-b"), false, false},
		{"a removal and an error", &wire.Response{TypeURL: cds, Removed: []string{"a"}, Errors: []wire.ResourceError{failing}}, false, false},
		{"only a bad name", response("-\x00"), false, false},
		{"a list", &wire.Response{TypeURL: cds, State: true}, true, false},
		{"a complete list", &wire.Response{TypeURL: cds, State: true, Complete: true}, true, true},
		{"heartbeats", &wire.Response{TypeURL: cds, State: true, Resources: response("=a@1~1s").Resources}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u, err := newUpdate(tc.r, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for kind, want := range map[Kind]bool{WholeType: tc.whole, ByName: tc.own} {
				if got := u.saysWhole(&Collection{table: &Table{kind: kind}}); got != want {
					t.Errorf("of a collection of %s: %t", kind, got)
				}
			}
		})
	}
}

// The error of a collection as a whole ends with members that the server sends, unless it comes with them again. Then
// clients are not told twice (ERR-1).
func TestErrorOfCollection_ERR1(t *testing.T) {
	failing := []wire.ResourceError{{Name: glob, Code: codes.Unavailable}}
	for _, tc := range []struct {
		name   string
		r      *wire.Response
		stands bool
	}{
		{"members", response("+" + globTwo + "@1"), false},
		{"members, and the error again", &wire.Response{TypeURL: cds, Resources: response("+" + globTwo + "@1").Resources, Errors: failing}, true},
		{"a heartbeat", response("=" + name + "@1~10s"), true},
		{"a resource elsewhere", response("+n@1"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			k.listener(NeedsStream).follow(glob)
			k.listener(NeedsStream).watch("n")
			k.demand(WholeType)
			k.says(WholeType, "+"+name+"@1~10s")
			k.apply(WholeType, &wire.Response{TypeURL: cds, Errors: failing})
			c := k.store.FindTable(cds, ByName).Collection(glob)
			before := c.errors.byKey[glob]
			k.apply(WholeType, tc.r)
			if !tc.stands {
				if c.errors.get(glob) != nil {
					t.Error("the error stands")
				}
			} else if c.errors == nil || c.errors.byKey[glob] != before {
				t.Error("it is not the error that stood there before")
			}
		})
	}
}
