package cache

import "testing"

// rejection counts how often it was told that the server sent the same again.
type rejection int

func (r *rejection) SentAgain() { *r++ }

// A client is told once that the server sent again what it rejected, until it rejects that again (ACK-3).
func TestSentAgain_ACK3(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).follow(Wildcard)
	k.demand(WholeType)
	k.says(WholeType, "+a@1", "+b@1")
	table := k.store.FindTable(cds, WholeType)
	a := table.Find("a")
	content, list, gone := new(rejection), new(rejection), new(rejection)
	told := func(what string, ofContent, ofList rejection) {
		t.Helper()
		if *content != ofContent || *list != ofList || *gone != 0 {
			t.Errorf("%s: told %d times of the content, %d of the list and %d who has left, want %d, %d and 0", what, *content, *list, *gone, ofContent, ofList)
		}
	}
	reject := func() {
		table.rejections.Add(a, content)
		table.rejections.Add(a, gone)
		table.rejections.AddList(list)
		table.rejections.AddList(gone)
		table.rejections.Forgive(a, gone)
		table.rejections.Forgive(nil, gone)
	}
	k.says(WholeType, "+a@1")
	told("nothing is rejected", 0, 0)
	reject()
	told("the server is silent", 0, 0)
	k.says(WholeType, "+b@1")
	told("something else of the list", 0, 1)
	k.says(WholeType, "+a@1")
	k.says(WholeType, "+a@1", "+b@1")
	told("the content, twice", 1, 1)
	reject()
	k.says(WholeType, "+a@1~1m")
	k.says(WholeType, "+b@1~1m")
	told("ttls", 1, 1)
	k.says(WholeType, "+b@1")
	k.says(WholeType, "+a@1")
	told("without ttls", 2, 2)
	reject()
	k.says(WholeType, "+a@2")
	k.says(WholeType, "+a@2")
	told("other content", 2, 3)
	if n := len(table.rejections.contents) + len(table.rejections.lists); n > 0 {
		t.Errorf("%d rejections are left", n)
	}
}

// Content is no suspect any more once a client accepted it (ACK-3).
func TestTrust_ACK3(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).follow(Wildcard)
	k.demand(WholeType)
	k.says(WholeType, "+a@1")
	table := k.store.FindTable(cds, WholeType)
	a, by := table.Find("a"), new(rejection)
	table.rejections.Add(a, by)
	table.rejections.Trust(a)
	table.rejections.Trust(a)
	if a.Marks().Suspect || table.rejections.suspects != 0 {
		t.Errorf("it is a suspect: %t, one of %d", a.Marks().Suspect, table.rejections.suspects)
	}
	if k.says(WholeType, "+a@1"); *by != 1 {
		t.Errorf("the client that rejected it was told %d times, want once", *by)
	}
}
