package delivery

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/ack"
)

// The parts of a list make one list, which has of all parts what it tells (RES-2, TTL-1).
func TestJoined_RES2_TTL1(t *testing.T) {
	at := time.Unix(1000, 0)
	stores := []*cache.Store{newBed(t, cache.Limits{}).store, newBed(t, cache.Limits{}).store}
	part := func(i int, b Batch) *Batch {
		b.TypeURL, b.Store, b.SystemVersion = cds, stores[i], string(rune('a'+i))
		return &b
	}
	for _, tc := range []struct {
		name     string
		a, b     Batch
		screened [2]*screenedList
		want     Batch
		store    int
		list     screenedList
	}{
		{
			name: "renewals", a: Batch{Renewal: true, Last: 3}, b: Batch{Renewal: true, Last: 4},
			want: Batch{Renewal: true, Last: 3},
		},
		{name: "a renewal beside news", a: Batch{Renewal: true, Last: 3}, b: Batch{Last: 4}, want: Batch{Last: 3}},
		{name: "news beside a renewal", a: Batch{Last: 3}, b: Batch{Renewal: true, Last: 4}, want: Batch{Last: 3}},
		{name: "only the second part has changes", b: Batch{Last: 4}, want: Batch{Last: 4}, store: 1},
		{name: "what was merged", a: Batch{Merged: 2, Last: 1}, b: Batch{Merged: 3}, want: Batch{Merged: 5, Last: 1}},
		{
			name: "the oldest change", a: Batch{Received: at, Last: 1}, b: Batch{Received: at.Add(-time.Second)},
			want: Batch{Received: at.Add(-time.Second), Last: 1},
		},
		{
			name: "ACC-3 a screen of the second part", screened: [2]*screenedList{1: {is: true}},
			store: 1, list: screenedList{is: true},
		},
		{
			name: "ACC-3 the first part goes out whatever it has", screened: [2]*screenedList{{is: true, must: true}, {is: true}},
			store: 1, list: screenedList{is: true, must: true},
		},
		{
			name: "ACC-3 the second part goes out whatever it has", screened: [2]*screenedList{{is: true}, {is: true, must: true}},
			store: 1, list: screenedList{is: true, must: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parts := []*Batch{part(0, tc.a), part(1, tc.b)}
			for i, s := range tc.screened {
				if s != nil {
					parts[i].extras().screened = *s
				}
			}
			got := joined(parts)
			if got.Renewal != tc.want.Renewal || got.Merged != tc.want.Merged || got.Last != tc.want.Last || !got.Received.Equal(tc.want.Received) {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
			if got.Store != stores[tc.store] {
				t.Errorf("the store of the last change is not that of part %d", tc.store)
			}
			if got.extra.screened != tc.list {
				t.Errorf("the list is %+v, want %+v", got.extra.screened, tc.list)
			}
			if want := digest.Join([]string{"a", "b"}); got.SystemVersion != want {
				t.Errorf("version %q, want %q", got.SystemVersion, want)
			}
		})
	}
}

// A response brings content of a store, or of those of its parts, where it brings any.
func TestBatchParts(t *testing.T) {
	store, other := newBed(t, cache.Limits{}).store, newBed(t, cache.Limits{}).store
	span := ack.Span{First: 1, Last: 2}
	for name, tc := range map[string]struct {
		batch Batch
		want  []Part
	}{
		"nothing":            {Batch{Store: store}, nil},
		"content":            {Batch{Store: store, content: span}, []Part{{store, span}}},
		"content of a group": {Batch{Store: store, content: span, extra: &batchExtra{}}, []Part{{store, span}}},
		"a list of several":  {Batch{Store: store, content: span, extra: &batchExtra{parts: []Part{{store, ack.Span{}}, {other, span}}}}, []Part{{other, span}}},
	} {
		if got := tc.batch.Parts(nil); !slices.Equal(got, tc.want) {
			t.Errorf("%s: it brings %v, want %v", name, got, tc.want)
		}
	}
}

// Of the lists of a client that may not have all, those do not go out that have what the last one had, unless
// they must. All others go, in their order (ACC-3).
func TestNewsOfLists_ACC3(t *testing.T) {
	list := func(typeURL, version string, must bool) *Batch {
		b := &Batch{TypeURL: typeURL, SystemVersion: version}
		b.extras().screened = screenedList{is: true, must: must}
		return b
	}
	plain := &Batch{TypeURL: eds, SystemVersion: "1"}
	grouped := &Batch{TypeURL: eds, SystemVersion: "1", extra: &batchExtra{}}
	for _, tc := range []struct {
		name string
		in   []*Batch
		keep []int
	}{
		{"no list", []*Batch{plain, plain}, []int{0, 1}},
		{"a first list", []*Batch{list(rds, "1", false)}, []int{0}},
		{"another version", []*Batch{list(cds, "2", false)}, []int{0}},
		{"the same version", []*Batch{list(cds, "1", false)}, nil},
		{"the same version, which must go", []*Batch{list(cds, "1", true)}, []int{0}},
		{"another version, which must go", []*Batch{list(cds, "2", true)}, []int{0}},
		{"the same between others", []*Batch{plain, list(cds, "1", false), plain, grouped}, []int{0, 2, 3}},
		{"the same before another one", []*Batch{list(cds, "1", false), list(lds, "2", false)}, []int{1}},
		{"the same behind another one", []*Batch{list(lds, "2", false), list(cds, "1", false)}, []int{0}},
		{"two that are the same", []*Batch{plain, list(cds, "1", false), list(lds, "1", false), plain}, []int{0, 3}},
		{"one that must go behind one that is the same", []*Batch{list(cds, "1", false), list(lds, "1", true)}, []int{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &Subscriber{lists: map[string]string{cds: "1", lds: "1"}}
			var want []*Batch
			for _, i := range tc.keep {
				want = append(want, tc.in[i])
			}
			if got := s.news(tc.in); !slices.Equal(got, want) {
				t.Errorf("%d go out, want %v", len(got), tc.keep)
			}
			for _, b := range tc.in {
				if b.extra != nil && b.extra.screened.is && s.lists[b.TypeURL] != b.SystemVersion {
					t.Errorf("the last list of %s is %q, want %q", short[b.TypeURL], s.lists[b.TypeURL], b.SystemVersion)
				}
			}
		})
	}
	first := new(Subscriber)
	if got := first.news([]*Batch{list(cds, "1", false)}); len(got) != 1 || first.lists[cds] != "1" {
		t.Error("the first list does not go out, or is not remembered")
	}
}

// Where a store has no part of a list, all parts are taken again, and no other list (RES-2).
func TestJoinWithoutAPart_RES2(t *testing.T) {
	star := newBed(t, cache.Limits{}).joinAs(bareForm)
	star.sub(cds, "*")
	named, third := star.also(), star.also()
	named.sub(cds, "a")
	named.sub(lds, "a")
	third.sub(eds, "a")
	var due schedule
	for _, c := range star.s.places {
		for _, w := range c.types {
			w.progress.sent = 7
			due.entry(w).places++
		}
	}
	part := func(typeURL string) *Batch { return &Batch{TypeURL: typeURL, SystemVersion: "1"} }
	for _, tc := range []struct {
		name   string
		in     []string
		want   []string
		relist []string
	}{
		{"nothing", nil, nil, nil},
		{"both parts", []string{cds, cds}, []string{cds}, nil},
		{"one part", []string{cds}, nil, []string{cds}},
		{"one part among others", []string{cds, eds, lds}, []string{eds, lds}, []string{cds}},
		{"both parts among others", []string{cds, cds, eds, eds, lds}, []string{cds, eds, eds, lds}, nil},
	} {
		var in []*Batch
		for _, url := range tc.in {
			in = append(in, part(url))
		}
		var got, relist []string
		for _, b := range join(in, &due, star.s.places) {
			got = append(got, b.TypeURL)
		}
		for _, c := range star.s.places {
			for _, w := range c.types {
				if w.list.relist != (w.progress.sent == 0) {
					t.Errorf("%s: of %s the list is due: %t, from change %d on", tc.name, short[w.typeURL], w.list.relist, w.progress.sent)
				}
				if w.list.relist {
					relist = append(relist, w.typeURL)
				}
				w.list.relist, w.progress.sent = false, 7
			}
		}
		if !slices.Equal(got, tc.want) || !slices.Equal(slices.Compact(relist), tc.relist) {
			t.Errorf("%s: %q go out, %q are due again; want %q and %q", tc.name, got, relist, tc.want, tc.relist)
		}
	}
}
