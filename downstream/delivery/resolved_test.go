package delivery

import (
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// Names with directives, and where they lead.
const (
	altG  = globG + "#alt=xdstp://y/envoy.config.cluster.v3.Cluster/h/*"
	altG1 = nameG1 + "#alt=xdstp://y/envoy.config.cluster.v3.Cluster/h/*"
	altG2 = nameG2 + "#alt=xdstp://y/envoy.config.cluster.v3.Cluster/h/*"
	altH1 = "xdstp://y/envoy.config.cluster.v3.Cluster/h/1"
	altQ  = nameQ + "#alt=" + altH1
	altQ2 = nameQ2 + "#alt=" + altH1
)

// resolvedBed is one whose store the relay itself fills.
func resolvedBed(tb testing.TB) *bed {
	tb.Helper()
	return newBedOf(tb, cache.Limits{}, cache.Source{FullState: map[string]bool{cds: true}, Resolved: true})
}

// resolves applies "+key from@version", "-key", "!key" for UNAVAILABLE, "=glob", "?key".
func (b *bed) resolves(words ...string) {
	b.Helper()
	r := &cache.Resolved{TypeURL: cds}
	for _, w := range words {
		key := w[1:]
		switch w[0] {
		case '+':
			key, from, _ := strings.Cut(key, " ")
			r.Found = append(r.Found, cache.Found{Key: key, Resource: resource(cds, from)})
		case '-':
			r.Removed = append(r.Removed, key)
		case '!':
			r.Failed = append(r.Failed, cache.Failure{Key: key, Error: wire.ResourceError{Code: codes.Unavailable, Message: "why"}})
		case '=':
			r.Synced = append(r.Synced, key)
		case '?':
			r.Late = append(r.Late, key)
		}
	}
	if r.Empty() {
		b.Fatal("nothing is resolved")
	}
	b.store.Session().ApplyResolved([]*cache.Resolved{r}, time.Now())
	b.check()
}

// subResolved subscribes to a spelling of a key.
func (p *peer) subResolved(spelling, key string) {
	p.Helper()
	p.c.Update(&Change{TypeURL: cds, Subscribe: []cache.Name{{Spelling: spelling, Key: key}}})
	p.check()
}

// Names with directives are asked for by their keys, all spellings together, and each
// client is told under its own, whatever the resource is called (LOC-5).
func TestResolved_NAME3_NAME4_NAME8_LOC5_RES1(t *testing.T) {
	b := resolvedBed(t)
	p, q := b.join(), b.join()
	p.subResolved(altQ2, altQ)
	q.subResolved(altQ, altQ)
	b.expect(b.demand(0), "CDS +"+altQ)
	b.resolves("+" + altQ + " " + nameQ + "@1")
	b.expect(p.collect(), "CDS +"+altQ2+"@1")
	b.expect(q.collect(), "CDS +"+altQ+"@1")
	// The alternative has the same content under another name: that is no change.
	r := resource(cds, altH1+"@1")
	same, err := wire.NewPayload(altH1, "1", resource(cds, nameQ+"@1").Any(), false)
	if err != nil {
		t.Fatal(err)
	}
	b.store.Session().ApplyResolved([]*cache.Resolved{{TypeURL: cds, Found: []cache.Found{{Key: altQ, Resource: same}}}}, time.Now())
	b.expect(p.collect())
	b.store.Session().ApplyResolved([]*cache.Resolved{{TypeURL: cds, Found: []cache.Found{{Key: altQ, Resource: r}}}}, time.Now())
	b.expect(p.collect(), "CDS +"+altQ2+"@1")
	b.resolves("!" + altQ) // which keeps what is held
	b.expect(p.collect(), "CDS !"+altQ2)
	b.resolves("-" + altQ)
	b.expect(p.collect(), "CDS -"+altQ2)
	p.unsubResolved(altQ2, altQ)
	q.unsubResolved(altQ, altQ)
	b.expect(b.demand(0), "CDS -"+altQ)
	b.resolves("+" + altQ + " " + nameQ + "@1") // nobody wants it any more
	if b.seen.unsolicited != 0 || b.cache.Resources() != 0 {
		t.Errorf("%d unsolicited, %d resources", b.seen.unsolicited, b.cache.Resources())
	}
}

func (p *peer) unsubResolved(spelling, key string) {
	p.Helper()
	p.c.Update(&Change{TypeURL: cds, Unsubscribe: []cache.Name{{Spelling: spelling, Key: key}}})
	p.check()
}

// Members of a glob with an alternative go by the spelling of the glob, without
// directives, and nothing is concluded before the relay says that these are all.
func TestResolved_GLOB1_GLOB4_NAME4_RES11(t *testing.T) {
	b := resolvedBed(t)
	p := b.join()
	p.c.Update(&Change{
		TypeURL: cds, Subscribe: []cache.Name{{Spelling: altG, Key: altG}},
		Versions: wire.NewVersions(map[string]string{altG1: "1", altG2: "1"}),
	})
	b.expect(b.demand(0), "CDS +"+altG)
	b.resolves("+" + altG1 + " " + altH1 + "@1")
	b.store.Session().Settle(time.Now().Add(time.Hour))
	b.expect(p.collect())
	b.resolves("=" + altG)
	b.expect(p.collect(), "CDS -"+nameG2)
	b.resolves("+"+altG1+" "+altH1+"@2", "+"+altG2+" "+nameG2+"@1")
	b.expect(p.collect(), "CDS +"+nameG1+"@2 +"+nameG2+"@1")
	if got := b.store.Session().Members(cds, altG); len(got) != 2 || got[0] != altG1 || got[1] != altG2 {
		t.Errorf("members %q", got)
	}
	if got := b.store.Session().Members(cds, globG); got != nil {
		t.Errorf("members of what nobody wants: %q", got)
	}
	b.resolves("-" + altG)
	b.expect(p.collect(), "CDS -"+nameG1+" -"+nameG2)
	late := b.join()
	late.subResolved(altG, altG)
	b.expect(late.collect(), "CDS -"+altG)
}

// A list waits for what may still come, and no longer (RES-2).
func TestResolved_RES2(t *testing.T) {
	b := resolvedBed(t)
	p := b.joinAs(Form{State: true, Wrapped: true})
	p.c.Update(&Change{TypeURL: cds, Subscribe: []cache.Name{{Spelling: altQ, Key: altQ}, {Spelling: altG, Key: altG}}, VersionInfo: "before"})
	b.demand(0)
	b.resolves("+" + altG1 + " " + altH1 + "@1")
	b.expect(p.lists())
	b.resolves("?"+altG, "?"+altQ)
	if got := p.lists(); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}
