package delivery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// snap tells a snapshot in one line: names and versions, sorted, and in brackets
// what is not known yet.
func (p *peer) snap(typeURL string) (line string, s *Snapshot) {
	p.Helper()
	s = TakeSnapshot([]*Place{p.c}, typeURL)
	p.check()
	var all []string
	for _, r := range s.Resources {
		all = append(all, r.Name+"="+r.Resource.Version)
	}
	slices.Sort(all)
	for _, e := range s.Errors {
		all = append(all, "!"+e.Name)
	}
	if !s.Complete {
		all = append(all, "(incomplete)")
	}
	return strings.Join(all, " "), s
}

// shows holds a snapshot to what is expected.
func (p *peer) shows(typeURL, want string) *Snapshot {
	p.Helper()
	line, s := p.snap(typeURL)
	if line != want {
		p.Errorf("the snapshot is %q, want %q", line, want)
	}
	return s
}

func TestSnapshot(t *testing.T) {
	for _, s := range []struct {
		name string
		run  func(b *bed)
	}{
		{"RES-2 a wildcard is complete once it is synced", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			p.shows(cds, "(incomplete)")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			first := p.shows(cds, "a=1 b=1 (incomplete)")
			b.settle()
			if again := p.shows(cds, "a=1 b=1"); again.Version != first.Version || again.Version != again.Digest {
				b.Errorf("versions %+v and %+v", first, again)
			}
		}},
		{"RES-2 names are complete once all are answered", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "a", "b")
			b.connect(0)
			b.says(cds, "+a@1")
			p.shows(cds, "a=1 (incomplete)")
			b.says(cds, "-b")
			p.shows(cds, "a=1")
		}},
		{"ACK-4 the version is that of what is held, whoever asks and in which order", func(b *bed) {
			p, q, other := b.joinAs(bareForm), b.joinAs(bareForm), b.joinAs(bareForm)
			p.sub(eds, "a", "b")
			q.sub(eds, "b", "a")
			other.sub(eds, "a")
			b.connect(0)
			b.says(eds, "+a@1", "+b@1")
			one := p.shows(eds, "a=1 b=1")
			if two := q.shows(eds, "a=1 b=1"); one.Version != two.Version {
				b.Errorf("versions %q and %q of the same", one.Version, two.Version)
			}
			if less := other.shows(eds, "a=1"); less.Version == one.Version {
				b.Error("SUB-5: other names have the same version")
			}
			b.says(eds, "-b")
			if less, same := p.shows(eds, "a=1"), other.shows(eds, "a=1"); less.Version != same.Version || less.Version == one.Version {
				b.Error("the version does not follow the content")
			}
		}},
		{"RES-4 a name and the collections that hold it are listed once", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, globG, nameG1)
			b.connect(0)
			b.says(cds, "+"+nameG1+"@1")
			p.shows(cds, nameG1+"=1 (incomplete)")
		}},
		{"the next change rings once a snapshot was taken, and says when it came", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			if s := p.shows(cds, "a=1 b=1 (incomplete)"); !s.Received.IsZero() || len(s.Parts) != 1 || s.Parts[0].Store != b.store || s.Parts[0].Content.Empty() {
				b.Errorf("the first snapshot tells of changes: %+v", s)
			}
			p.rang()
			for range 2 {
				before := time.Now()
				b.says(cds, "+a@2")
				b.says(cds, "+a@3")
				if !p.rang() {
					b.Error("the bell does not ring")
				}
				s := p.shows(cds, "a=3 b=1 (incomplete)")
				if s.Received.IsZero() || s.Received.Before(before.Add(-time.Hour)) || s.Parts[0].Content.Last != b.store.Session().Sequence() {
					b.Errorf("the change is not told of: %+v", s)
				}
			}
		}},
		{"tombstones do not wait for whoever takes snapshots", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			p.snap(cds)
			b.says(cds, "-a")
			p.shows(cds, "b=1 (incomplete)")
			b.says(cds, "+b@2")
			if kept := b.upkeep(cds, cache.WholeType).Retained; kept != 0 {
				b.Errorf("%d tombstones keep their bytes", kept)
			}
		}},
		{"TTL-5 what is not to be cached is there for later polls while one is held", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "a")
			b.connect(0)
			b.once(cds, "a@1")
			held := p.shows(cds, "a=1")
			late := b.joinAs(bareForm)
			late.sub(cds, "a")
			if now := late.shows(cds, "a=1"); now.Version != held.Version {
				b.Errorf("version %q, was %q", now.Version, held.Version)
			}
		}},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(newBed(t, cache.Limits{})) })
	}
}

// The server's version_info is passed on for whole wildcards only, and only as long
// as it stands for one content.
func TestSnapshot_ServerVersion_ACK4(t *testing.T) {
	b := newStateBed(t)
	whole, named := b.joinAs(bareForm), b.joinAs(bareForm)
	whole.sub(cds, "*")
	named.sub(cds, "a")
	b.connect(0)
	b.connect(1)
	b.state(cds, "v1", "+a@1", "+b@1")
	if err := b.store.Session().Apply(streamOf(1), stateOf(cds, "v1", "+a@1"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, s := whole.snap(cds); s.Version != "v1" || s.Digest == "v1" || !s.Complete {
		t.Errorf("the wildcard's snapshot is %+v", s)
	}
	if _, s := named.snap(cds); s.Version != s.Digest {
		t.Errorf("the version of a name is %q, which other names may have too", s.Version)
	}
	b.state(cds, "v1", "+a@2")
	if _, s := whole.snap(cds); s.Version != s.Digest {
		t.Errorf("version %q although it was seen with other contents", s.Version)
	}
	b.state(cds, "v2")
	if _, s := whole.snap(cds); s.Version != "v2" || len(s.Resources) != 0 {
		t.Errorf("the snapshot of nothing is %+v", s)
	}
}

// Parts of several stores make one whole, with a version of its own (RES-4, ACK-4).
func TestSnapshot_SeveralStores_ACK4(t *testing.T) {
	a, b := newBed(t, cache.Limits{}), newBed(t, cache.Limits{})
	p, q, idle := a.joinAs(bareForm), b.joinAs(bareForm), b.joinAs(bareForm)
	clients := []*Place{p.c, q.c, idle.c}
	if s := TakeSnapshot(clients, eds); !s.Complete || s.Version != cache.EmptyVersion() || s.Digest != cache.EmptyVersion() {
		t.Errorf("the snapshot of no subscription is %+v", s)
	}
	p.sub(eds, "x")
	q.sub(eds, "y")
	a.connect(0)
	b.connect(0)
	a.says(eds, "+x@1")
	if s := TakeSnapshot(clients, eds); s.Complete || len(s.Resources) != 1 || len(s.Parts) != 1 || s.Parts[0].Store != a.store {
		t.Errorf("the snapshot of one part is %+v", s)
	}
	b.says(eds, "+y@1")
	s := TakeSnapshot(clients, eds)
	_, one := p.snap(eds)
	_, two := q.snap(eds)
	if !s.Complete || len(s.Resources) != 2 || s.Version != digest.Join([]string{two.Version, one.Version}) ||
		s.Received.IsZero() {
		t.Errorf("the snapshot of both is %+v", s)
	}
}

// A client that polls joins and leaves each time. What changes while nobody polls changes the
// version all the same.
func TestSnapshotACK4_versionsWhileNobodyPolls(t *testing.T) {
	for _, sub := range []string{"*", globG} {
		b := newBed(t, cache.Limits{})
		b.join().sub(cds, sub) // the table stays
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1")
		poll := func() string {
			p := b.joinAs(bareForm)
			p.sub(cds, sub)
			s := p.shows(cds, nameG1+"=1 (incomplete)")
			p.leave()
			return s.Version
		}
		first := poll()
		b.says(cds, "+"+nameG1+"@2") // while nobody polls
		b.says(cds, "+"+nameG1+"@1")
		if again := poll(); again != first {
			t.Errorf("%s: version %q, was %q", sub, again, first)
		}
	}
}

// What "*" of one store brings may be asked for by name in another: it is listed once.
func TestSnapshot_RES4_NamedInAnotherStore(t *testing.T) {
	b := newBed(t, cache.Limits{})
	other := b.cache.Open(cache.Source{Quiet: quiet})
	p := b.joinAs(bareForm)
	place := Join(other, ringing(p.bell), bareForm)
	t.Cleanup(place.Leave)
	p.sub(cds, "*")
	place.Update(&Change{TypeURL: cds, Subscribe: names([]string{"a"})})
	b.connect(0)
	other.Session().Restart(streamOf(0), 0)
	b.says(cds, "+a@1", "+b@1")
	if err := other.Session().Apply(streamOf(0), response(cds, "+a@2"), time.Now()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range TakeSnapshot([]*Place{p.c, place}, cds).Resources {
		seen[r.Name]++
	}
	if len(seen) != 2 || seen["a"] != 1 || seen["b"] != 1 {
		t.Errorf("listed: %v, want each of a and b once", seen)
	}
}

// A snapshot has what a name stands for in the words of the name, if the server has answered it: "*" is not asked.
func TestSnapshotOfNamesAndAll_SUB12_RES4(t *testing.T) {
	b := newBed(t, cache.Limits{})
	p := b.joinAs(bareForm)
	p.sub(eds, "*", "a", "b", "c")
	b.connect(0)
	b.connect(1)
	b.says(eds, "+a@all", "+b@all", "+c@all", "+d@all")
	b.saysOn(1, eds, "+a@name", "-b")
	b.settle()
	s := p.shows(eds, "a=name c=all d=all (incomplete)")
	if s.Without != nil {
		t.Errorf("ACC-3: %v is withheld from a client that may have all", s.Without)
	}
}

// What came before the last snapshot is not news of the next one.
func TestSnapshotReceived_STR7(t *testing.T) {
	b := newBed(t, cache.Limits{})
	p := b.joinAs(bareForm)
	p.sub(eds, "*")
	b.connect(0)
	b.says(eds, "+a@1")
	for range 3 {
		if s := p.shows(eds, "a=1 (incomplete)"); !s.Received.IsZero() || s.Restored {
			t.Errorf("it says that something came at %v, SUR-1: that something is restored: %t", s.Received, s.Restored)
		}
	}
	b.says(eds, "+b@1")
	if s := p.shows(eds, "a=1 b=1 (incomplete)"); s.Received.IsZero() {
		t.Error("it does not say when the change came")
	}
}

// An empty collection has nothing that is restored (SUR-1).
func TestSnapshotRestored_SUR1(t *testing.T) {
	for _, tc := range []struct {
		says []string
		want bool
	}{{nil, false}, {[]string{"+a@1"}, true}} {
		b, _ := newBed(t, cache.Limits{}).subscribed(eds, "*")
		b.says(eds, tc.says...)
		b.settle()
		p := b.restart().joinAs(bareForm)
		p.sub(eds, "*")
		if _, s := p.snap(eds); s.Restored != tc.want {
			t.Errorf("after %q something is restored: %t", tc.says, s.Restored)
		}
	}
}

// Snapshots are equal if the client is sent the same by them.
func TestSnapshotEqual_ACC3(t *testing.T) {
	a, b := resource(cds, "a@1"), resource(cds, "b@1")
	of := func(without []string, all ...*wire.Resource) *Snapshot {
		s := new(Snapshot)
		for _, r := range all {
			s.Resources = append(s.Resources, Named{r, r.Name})
		}
		if without != nil {
			s.without(a, without)
		}
		return s
	}
	for _, tc := range []struct {
		name string
		x, y *Snapshot
		want bool
	}{
		{"nothing", of(nil), of(nil), true},
		{"the same", of(nil, a, b), of(nil, a, b), true},
		{"more", of(nil, a), of(nil, a, b), false},
		{"another one", of(nil, a), of(nil, b), false},
		{"without the same aliases", of([]string{"x"}, a), of([]string{"x"}, a), true},
		{"without another alias", of([]string{"x"}, a), of([]string{"y"}, a), false},
		{"without an alias of one", of([]string{"x"}, a), of(nil, a), false},
		{"without the same alias, and more", of([]string{"x"}, a), of([]string{"x"}, a, b), false},
	} {
		if got := tc.x.Equal(tc.y); got != tc.want {
			t.Errorf("%s: equal: %t", tc.name, got)
		}
	}
}
