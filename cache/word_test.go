package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// Lists wait for the server's word of restored members until it answers, or is silent for long though it has answered something.
// Where there are none they wait for nothing (SUR-1, ABS-3).
func TestAwaitsMembers_SUR1_ABS3(t *testing.T) {
	for _, tc := range []struct {
		members              []string
		overdue, spoke, want bool
	}{
		{nil, false, false, false},
		{nil, true, false, false},
		{[]string{"a"}, false, false, true},
		{[]string{"a"}, false, true, true},
		{[]string{"a"}, true, false, true},
		{[]string{"a"}, true, true, false},
	} {
		k := newKept(t)
		image := TableImage{TypeURL: cds, Kind: WholeType, Collections: []string{Wildcard}}
		for _, name := range tc.members {
			image.Resources = append(image.Resources, ResourceImage{Resource: words.Resource(cds, name+"@1").AsRestored()})
		}
		k.store.Snapshots().Restore(&Image{Tables: []TableImage{image}}, time.Now())
		c := k.store.FindTable(cds, WholeType).colls[Wildcard]
		c.quiet.overdue = tc.overdue
		if tc.spoke {
			k.store.restored.heard = time.Now()
		}
		if got := c.AwaitsMembers(); got != tc.want {
			t.Errorf("%+v: lists wait: %t", tc, got)
		}
	}
}
