package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// recorder is the clients of a name that remember what they were told.
type recorder struct {
	crowd

	removals []Notice
}

func (r *recorder) Notify(n Notice) {
	if n.Event == Removed {
		r.removals = append(r.removals, n)
	}
}

// record has clients with some needs watch a name.
func (k *kept) record(key string, needs Needs) *recorder {
	k.Helper()
	r := &recorder{crowd: crowd{k.listener(needs)}}
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	t := k.store.Table(cds, ByName)
	t.Watch(t.Entry(key), needs, func(Audience) Audience { return r })
	return r
}

// A removal says whether the name stood for nothing before: clients that know of that are not told again (RES-7).
func TestRemovalAgain_RES7(t *testing.T) {
	failed := func(code codes.Code) func(*kept) {
		return func(k *kept) {
			k.apply(WholeType, &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{{Name: "n", Code: code}}})
		}
	}
	for _, tc := range []struct {
		name   string
		before func(*kept)
		want   bool
	}{
		{"there", func(k *kept) { k.says(WholeType, "+n@1") }, false},
		{"not answered", func(*kept) {}, false},
		{"an error that leaves it open", failed(codes.Unavailable), false},
		{"an error that says that there is none", failed(codes.NotFound), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			r := k.record("n", NeedsStream)
			k.demand(WholeType)
			tc.before(k)
			k.says(WholeType, "-n")
			if last := r.removals[len(r.removals)-1]; last.Again != tc.want {
				t.Errorf("it was so before: %t", last.Again)
			}
		})
	}
}

// A tombstone retains its content only if a follower of its collection is sent lists (ADS-1).
func TestRetained_ADS1(t *testing.T) {
	for _, tc := range []struct {
		name  string
		needs Needs
		want  bool
	}{
		{"of a client of the state of the world", NeedsStream | NeedsDigests, true},
		{"of an incremental one, beside others of the state of the world elsewhere", NeedsStream, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			k.listener(tc.needs).follow(glob)
			k.listener(NeedsStream | NeedsDigests).watch("n")
			k.demand(WholeType)
			k.says(WholeType, "+"+name+"@1")
			k.says(WholeType, "-"+name)
			if got := k.named(name).Retained() != nil; got != tc.want {
				t.Errorf("its content is retained: %t", got)
			}
		})
	}
}

// An alias keeps its own name, and so does a name that the resolver asks for by its key (RES-10).
func TestNameOfAlias_RES10(t *testing.T) {
	k := asked(t, Source{}, "r", "alias")
	k.says(WholeType, "+r@1|alias")
	if got := k.named("alias"); got.Name() != "alias" || got.ServedName() != "r" {
		t.Errorf("the alias is called %q, and served by %q", got.Name(), got.ServedName())
	}
	k = asked(t, Source{Resolved: true}, globless)
	k.says(WholeType, "+xdstp://x/envoy.config.cluster.v3.Cluster/q/m?b=2&a=1@1")
	if got := k.named(globless).Name(); got != globless {
		t.Errorf("the resolver's name is spelled %q", got)
	}
}

// So many resources of a table go to clients alone because some client rejected them alone, and each counts once
// (ACK-3).
func TestSuspects_ACK3(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).follow(Wildcard)
	k.demand(WholeType)
	var all []string
	for i := range maxSuspects + 1 {
		all = append(all, fmt.Sprintf("+a%d@1", i))
	}
	k.says(WholeType, all...)
	table := k.store.FindTable(cds, WholeType)
	suspect := func(i int) *Entry {
		e := table.Find(fmt.Sprint("a", i))
		table.rejections.Add(e, new(rejection))
		return e
	}
	suspect(0)
	for i := range maxSuspects {
		if !suspect(i).Marks().Suspect {
			t.Fatalf("the suspect of number %d is sent with others", i+1)
		}
	}
	if suspect(maxSuspects).Marks().Suspect {
		t.Error("there are more suspects than are borne")
	}
	k.says(WholeType, "+a0@2")
	if table.Find("a0").Marks().Suspect {
		t.Error("other content is suspect too")
	}
	if !suspect(maxSuspects).Marks().Suspect {
		t.Error("what is not suspect any more takes a place")
	}
}

// The answer that a name stands for nothing ends for its other names when one of them appears (RES-16, RES-7).
func TestAnswerEnds_RES16(t *testing.T) {
	k := asked(t, Source{Absent: time.Hour}, "a", "b")
	k.says(WholeType, "=virtual host|a,b")
	k.says(WholeType, "+a@1")
	k.is("b", Unknown, "")
	if subscribed, _ := k.demand(WholeType); len(subscribed) != 1 || subscribed[0] != "b" {
		t.Errorf("the server is asked for %q", subscribed)
	}
	if k.named("b").Absence() != nil {
		t.Error("the answer stands")
	}
}
