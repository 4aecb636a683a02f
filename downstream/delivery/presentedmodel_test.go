package delivery

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"pgregory.net/rapid"
)

// The sum of what a client presents decides nothing that comparing one by one would not.
func TestRES11ModelPresented(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBed(t, cache.Limits{})
		now := time.Now()
		b.cache.Now = func() time.Time { return now } // for both clients
		spellings := rapid.SampledFrom([][]string{
			{"*"}, {globG}, {"*", globG}, {globQ, globG}, {globQ2, globG}, {"*", "a"}, {globG, nameG1}, {"*", globG, nameG2, "b"},
		}).Draw(rt, "subscribes")
		b.join().sub(cds, spellings...)
		b.connect(0)
		b.connect(1)
		server := presentedServer{T: rt, bed: b, both: spellings[0] == cache.Wildcard && len(spellings) > 1, held: map[string]string{}}
		for range rapid.IntRange(0, 8).Draw(rt, "before") {
			server.step()
		}
		form := Form{TTL: rapid.Bool().Draw(rt, "can do ttl")}
		quick, slow := b.joinAs(form), b.joinAs(form)
		ch := Change{TypeURL: cds, Subscribe: names(spellings), Versions: server.presented()}
		quick.c.Update(&ch)
		slow.presentsOneByOne(ch)
		for range 1 + rapid.IntRange(0, 6).Draw(rt, "after") {
			b.check()
			if one, other := wordsOf(quick.collect()), wordsOf(slow.collect()); !slices.Equal(one, other) {
				rt.Fatalf("told %q, compared one by one %q", one, other)
			}
			server.step()
		}
	})
}

// presentsOneByOne is Update that compares no sums.
func (p *peer) presentsOneByOne(ch Change) {
	p.c.Update(&Change{TypeURL: ch.TypeURL, Subscribe: ch.Subscribe})
	w := p.c.find(ch.TypeURL)
	w.held.at = p.cache.Now()
	p.store.View(func() {
		one := presentation{typeSub: w, subs: &w.subs, versions: &ch.Versions}
		if w.subs.names.len() > 0 {
			one.names()
		}
		for f, c := range one.sort() {
			one.hold(f, c)
		}
	})
}

// wordsOf are the words of all responses, whatever their order.
func wordsOf(said []string) []string {
	words := strings.Fields(strings.Join(said, " "))
	slices.Sort(words)
	return words
}

// presentedServer is what the names of a model stand for.
type presentedServer struct {
	*rapid.T

	bed  *bed
	both bool              // names or globs are subscribed to beside "*"
	held map[string]string // last versions
}

var presentedNames = []string{"a", "b", "c", nameG1, nameG2, nameQ}

func (s *presentedServer) step() {
	name := rapid.SampledFrom(presentedNames).Draw(s.T, "name")
	version := rapid.SampledFrom([]string{"1", "2", ""}).Draw(s.T, "version")
	text := name + "@" + version
	if content := rapid.SampledFrom([]string{"", "x", "y"}).Draw(s.T, "content"); content != "" {
		text += ":" + content
	}
	stream := 0
	if s.both { // "*" has the first stream, and no members of globs
		stream = 1
		if !strings.HasPrefix(name, "xdstp:") {
			stream = rapid.IntRange(0, 1).Draw(s.T, "stream")
		}
	}
	switch rapid.IntRange(0, 9).Draw(s.T, "step") {
	case 0, 1:
		s.bed.saysOn(stream, cds, "-"+name)
		delete(s.held, name)
		return
	case 2:
		s.bed.settle()
		return
	case 3:
		text += "~1h"
	case 4:
		s.bed.saysOn(stream, cds, "+"+name+"@"+version+"!")
		s.held[name] = version
		return
	}
	s.bed.saysOn(stream, cds, "+"+text)
	s.held[name] = resource(cds, text).Shown()
}

// presented is what a client says that it holds: nearly what there is, mostly.
func (s *presentedServer) presented() wire.Versions {
	var v wire.Versions
	for _, name := range slices.Sorted(maps.Keys(s.held)) {
		if rapid.IntRange(0, 9).Draw(s.T, "forgotten") > 0 {
			v.Add(name, s.held[name])
		}
	}
	if rapid.IntRange(0, 2).Draw(s.T, "more") == 0 {
		for range rapid.IntRange(1, 3).Draw(s.T, "number") {
			v.Add(rapid.SampledFrom(presentedNames).Draw(s.T, "another"), rapid.SampledFrom([]string{"1", "2", "", "\x00", "other"}).Draw(s.T, "as"))
		}
	}
	return v
}
