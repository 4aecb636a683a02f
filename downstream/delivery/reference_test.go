package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	ldsList  = lds + "Collection"
	listName = "xdstp://x/envoy.config.listener.v3.ListenerCollection/foo"
	listGlob = "xdstp://x/envoy.config.listener.v3.ListenerCollection/g/*"
	listG1   = "xdstp://x/envoy.config.listener.v3.ListenerCollection/g/1"
)

// directory is a list collection.
func directory(tb testing.TB, name, version string, once bool) *wire.Resource {
	tb.Helper()
	p := &discovery.Resource{
		Name: name, Version: version,
		Resource: &anypb.Any{TypeUrl: ldsList, Value: []byte(name + version)},
	}
	if once {
		p.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	}
	r, err := wire.NewResource(p)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (b *bed) lists(typeURL string, r ...*wire.Resource) {
	b.Helper()
	if err := b.apply(0, &wire.Response{TypeURL: typeURL, Resources: r}); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

// referringBed is one whose references are taken.
func referringBed(t *testing.T) *bed {
	t.Helper()
	b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, References: true})
	b.connect(0)
	return b
}

// references takes what is told of references: name@version and who has it, "-name" for
// what refers to nothing.
func (b *bed) references() []string {
	b.Helper()
	var said []string
	for _, r := range b.cache.TakeReferences() {
		text := "-" + r.Name
		if r.Resource != nil {
			text = fmt.Sprintf("%s@%s watched: %t", r.Name, r.Resource.Version, r.Watched)
		}
		if r.Wildcard {
			text += " in *"
		}
		said = append(said, text)
	}
	slices.Sort(said)
	b.check()
	return said
}

func (b *bed) announced() bool {
	select {
	case <-b.cache.ReferencesChanged():
		return true
	default:
		return false
	}
}

func TestReferences_LIST2(t *testing.T) {
	t.Run("LIST-2 a directory that a client names", func(t *testing.T) {
		b := referringBed(t)
		p := b.join()
		p.sub(ldsList, listName)
		b.demand(0)
		b.expect(b.references())
		b.says(ldsList, "+"+listName+"@1")
		b.says(ldsList, "+"+listName+"@2")
		if !b.announced() || b.announced() {
			t.Error("not announced once")
		}
		b.expect(b.references(), listName+"@2 watched: true")
		b.says(ldsList, "+"+listName+"@2") // the same
		b.expect(b.references())
		b.says(ldsList, "-"+listName)
		b.expect(b.references(), "-"+listName)
		b.says(ldsList, "+"+listName+"@3")
		b.expect(b.references(), listName+"@3 watched: true")
		p.leave()
		b.expect(b.references(), listName+"@3 watched: false")
		b.says(ldsList, "+"+listName+"@4")
		b.expect(b.references())
		if b.announced(); b.announced() {
			t.Error("announced what nobody has")
		}
		p = b.join()
		p.sub(ldsList, listName)
		b.expect(b.references(), listName+"@4 watched: true")
		p.leave()
		b.letGo()
		b.demand(0)
		b.expect(b.references(), "-"+listName)
	})
	t.Run("LIST-2 a reader is told again of what clients have, and of nothing else", func(t *testing.T) {
		b := referringBed(t)
		p := b.join()
		p.sub(ldsList, listName)
		p.sub(cds, "*")
		b.demand(0)
		b.says(ldsList, "+"+listName+"@1")
		b.says(cds, "+plain@1")
		b.references()
		b.store.TellReferences()
		b.expect(b.references(), listName+"@1 watched: true")
		p.leave()
		b.references()
		b.store.TellReferences()
		b.expect(b.references())
	})
	t.Run("LIST-2 among members", func(t *testing.T) {
		for _, followed := range []string{"*", listGlob} {
			b := referringBed(t)
			p := b.join()
			p.sub(ldsList, followed)
			b.demand(0)
			mark := map[bool]string{true: " in *"}[followed == "*"]
			b.lists(ldsList, directory(t, listG1, "1", false))
			b.expect(b.references(), listG1+"@1 watched: true"+mark)
			q := b.join()
			q.sub(ldsList, followed)
			p.leave()
			b.expect(b.references())
			q.leave()
			b.expect(b.references(), listG1+"@1 watched: false"+mark)
			p = b.join()
			p.sub(ldsList, followed)
			b.expect(b.references(), listG1+"@1 watched: true"+mark)
			b.says(ldsList, "-"+listG1)
			b.expect(b.references(), "-"+listG1+mark)
		}
	})
	t.Run("LIST-2 pinned, and a client comes and goes", func(t *testing.T) {
		b := referringBed(t)
		b.pin(ldsList, listG1)
		b.demand(0)
		b.lists(ldsList, directory(t, listG1, "1", false))
		b.expect(b.references(), listG1+"@1 watched: false")
		p := b.join()
		p.sub(ldsList, listG1)
		b.expect(b.references(), listG1+"@1 watched: true")
		p.leave()
		b.expect(b.references(), listG1+"@1 watched: false")
		b.unlist(ldsList, listG1)
		b.demand(0)
		b.expect(b.references(), "-"+listG1)
	})
	t.Run("TTL-2 what ran out refers to nothing", func(t *testing.T) {
		b := referringBed(t)
		p := b.join()
		p.sub(ldsList, listName)
		b.demand(0)
		b.says(ldsList, "+"+listName+"@1~3s")
		b.references()
		b.store.Session().Settle(time.Now().Add(time.Minute))
		b.expect(b.references(), "-"+listName)
	})
	t.Run("LIST-2 the relay's own reading is no client's", func(t *testing.T) {
		b := referringBed(t)
		reader := Read(b.store, func() {})
		reader.Update(&Change{TypeURL: ldsList, Subscribe: names([]string{"a", listGlob})})
		b.demand(0)
		b.lists(ldsList, directory(t, "a", "1", false), directory(t, listG1, "1", false))
		b.expect(b.references())
		p, q := b.join(), b.join()
		p.sub(ldsList, "a", listGlob)
		b.expect(b.references(), "a@1 watched: true", listG1+"@1 watched: true")
		q.sub(ldsList, "a", listGlob)
		p.leave()
		b.expect(b.references())
		q.leave()
		b.expect(b.references(), "a@1 watched: false", listG1+"@1 watched: false")
		reader.Leave()
		b.expect(b.references())
	})
	t.Run("LIST-2 a store that is not to tell", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.connect(0)
		p := b.join()
		p.sub(ldsList, listName)
		b.demand(0)
		b.says(ldsList, "+"+listName+"@1")
		if b.announced() || len(b.references()) != 0 {
			t.Error("it tells")
		}
	})
}

// What refers to nothing costs nothing to be told of, and a directory what has changed.
func TestReferences_allocations(t *testing.T) {
	b := newBedOf(t, cache.Limits{}, cache.Source{References: true})
	p := b.join()
	p.sub(cds, "*")
	p.sub(ldsList, "*")
	b.connect(0)
	push := &crowd{bed: b, peers: []*peer{p}}
	for i := range push.updates {
		push.updates[i] = response(cds, fmt.Sprintf("+a@v%d", i))
	}
	push.update()
	if got := testing.AllocsPerRun(100, push.update); got > 3 {
		t.Errorf("%v allocations for a member", got)
	}
	for i := range push.updates {
		push.updates[i] = &wire.Response{TypeURL: ldsList, Resources: []*wire.Resource{directory(t, "r", fmt.Sprint(i), false)}}
	}
	push.update()
	if got := testing.AllocsPerRun(100, push.update); got > 3 {
		t.Errorf("%v allocations for a directory that nobody took yet", got)
	}
}
