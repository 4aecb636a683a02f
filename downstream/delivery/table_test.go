package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestStreams(t *testing.T) {
	t.Run("SUB-12 wildcard and names of one type on two streams", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		star, named := b.join(), b.join()
		star.sub(cds, "*")
		named.sub(cds, "only-named")
		b.expect(b.connect(0), "CDS +*")
		b.expect(b.connect(1), "CDS +only-named")
		b.saysOn(0, cds, "+a@1")
		b.saysOn(1, cds, "+only-named@1")
		b.expect(star.collect(), "CDS +a@1")
		b.expect(named.collect(), "CDS +only-named@1")
	})
	t.Run("SUB-12 the kind wanted first has the first stream, another type both kinds anew", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, "a")
		c.sub(cds, "*")
		c.sub(lds, "*")
		b.expectAll(b.connect(0), "CDS +a", "LDS +*")
		b.expect(b.connect(1), "CDS +*")
	})
	t.Run("SUB-12 the second stream is wanted as long as something is on it", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, "*")
		if !b.store.Session().StreamWanted(streamOf(0)) || b.store.Session().StreamWanted(streamOf(1)) {
			t.Fatal("one kind takes one stream")
		}
		c.sub(cds, "a")
		b.connect(0)
		b.connect(1)
		c.unsub(cds, "a")
		if !b.store.Session().StreamWanted(streamOf(1)) {
			t.Fatal("its unsubscribe is still to be said")
		}
		b.letGo()
		b.expect(b.demand(1), "CDS -a")
		if b.store.Session().StreamWanted(streamOf(1)) {
			t.Fatal("nothing is on the second stream")
		}
	})
	// server                   relay                      client
	// sends a@1 (for its name)
	//                          unsubscribes a             unsubscribes a
	//                                                     subscribes *
	// (a@1 arrives: it must not be taken for a member of *)
	t.Run("SUB-12 what was in flight for names when they were unsubscribed is not taken for the wildcard", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, "a")
		b.expect(b.connect(0), "CDS +a")
		c.unsub(cds, "a")
		b.letGo()
		b.expect(b.demand(0), "CDS -a")
		c.sub(cds, "*")
		b.expect(b.demand(0))
		b.expect(b.connect(1), "CDS +*")
		b.says(cds, "+a@1")
		b.expect(c.collect())
		if b.seen.unsolicited != 1 {
			t.Fatalf("SUB-13: counted %d", b.seen.unsolicited)
		}
		b.saysOn(1, cds, "+b@1")
		b.expect(c.collect(), "CDS +b@1")
	})
	t.Run("SUB-12 a stream that begins anew may carry the other kind", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		c.unsub(cds, "a")
		b.letGo()
		b.expect(b.demand(0), "CDS -a")
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0))
		c.sub(cds, "*")
		b.expect(b.demand(0), "CDS +*")
	})
	t.Run("OPS-5 types that nobody wants any more do not pile up", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		for _, typeURL := range []string{"t/1", "t/2", "t/3"} {
			c.sub(typeURL, "a")
			b.connect(0)
			c.unsub(typeURL, "a")
		}
		b.letGo()
		b.store.Session().Lost(streamOf(0))
		b.connect(0)
		if n := len(b.store.Stats()); n != 0 {
			t.Fatalf("%d tables are left", n)
		}
	})
}

func TestNamesUpstream(t *testing.T) {
	t.Run("NAME-3 one subscription serves all spellings, NAME-4 each under its own", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		one, other := b.join(), b.join()
		one.sub(cds, nameQ2)
		other.sub(cds, nameQ)
		b.expect(b.connect(0), "CDS +"+nameQ)
		b.says(cds, "+"+nameQ2+"@1")
		b.expect(one.collect(), "CDS +"+nameQ2+"@1")
		b.expect(other.collect(), "CDS +"+nameQ+"@1")
		b.says(cds, "-"+nameQ2)
		b.expect(one.collect(), "CDS -"+nameQ2)
		b.expect(other.collect(), "CDS -"+nameQ)
	})
	t.Run("NAME-8 directives never go upstream, NAME-4 the client sees its own", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, nameG1+"#alt=xdstp://y/envoy.config.cluster.v3.Cluster/x", globQ+"#alt=xdstp://y/envoy.config.cluster.v3.Cluster/q/*")
		c.sub(cds, "opaque#name")
		b.expect(b.connect(0), "CDS +opaque#name +"+nameG1+" +"+globQ)
		b.says(cds, "+"+nameG1+"@1", "+"+nameQ+"@1", "+opaque#name@1")
		b.expect(c.collect(), "CDS +"+nameG1+"#alt=xdstp://y/envoy.config.cluster.v3.Cluster/x@1 +opaque#name@1 +"+nameQ+"@1")
	})
	t.Run("NAME-3 what is encoded and need not be is one name", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		one, other := b.join(), b.join()
		const encoded, decoded = "xdstp://x/envoy.config.cluster.v3.Cluster/a%3Ab", "xdstp://x/envoy.config.cluster.v3.Cluster/a:b"
		one.sub(cds, encoded)
		other.sub(cds, decoded)
		b.expect(b.connect(0), "CDS +"+decoded)
		b.says(cds, "+"+encoded+"@1")
		b.expect(one.collect(), "CDS +"+encoded+"@1")
		b.expect(other.collect(), "CDS +"+decoded+"@1")
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "CDS +"+decoded+" ="+encoded+"@1")
	})
	// The server answers in its own spelling; a server that compares to the letter
	// knows the subscription by the one that it was made with.
	t.Run("SUB-11 the unsubscribe is spelled as the subscribe was", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, nameQ2)
		b.expect(b.connect(0), "CDS +"+nameQ)
		b.says(cds, "+"+nameQ2+"@1")
		c.unsub(cds, nameQ2)
		b.letGo()
		b.expect(b.demand(0), "CDS -"+nameQ)
	})
}
