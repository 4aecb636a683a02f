package delivery

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestVersions(t *testing.T) {
	// held gives what a client that presents a@version is sent.
	held := func(b *bed, version string) []string {
		c := b.join()
		defer c.leave()
		c.resume(cds, []string{"a@" + version}, "a")
		return c.collect()
	}
	begin := func(t *testing.T) *bed {
		t.Helper()
		b := newBed(t, cache.Limits{})
		b.join().sub(cds, "a")
		b.connect(0)
		return b
	}
	t.Run("ACK-4 RES-11 the version is what the client is skipped by", func(t *testing.T) {
		b := begin(t)
		b.says(cds, "+a@1:x")
		b.expect(held(b, "1"))
		b.expect(held(b, "2"), "CDS +a@1")
		b.expect(held(b, ""), "CDS +a@1")
	})
	t.Run("ACK-4 a version with two contents is not used to skip anything", func(t *testing.T) {
		b := begin(t)
		b.says(cds, "+a@1:x")
		b.says(cds, "+a@1:y")
		b.expect(held(b, "1"), "CDS +a@1")
		b.says(cds, "+a@2:y")
		b.expect(held(b, "2"))
	})
	// server counts: 1, 2; is restarted; counts: 1
	t.Run("ACK-4 also where the two were not one after the other", func(t *testing.T) {
		b := begin(t)
		b.says(cds, "+a@1:x")
		b.says(cds, "+a@2:y")
		b.says(cds, "+a@1:z")
		b.expect(held(b, "1"), "CDS +a@1")
		b.says(cds, "-a")
		b.says(cds, "+a@2:x")
		b.expect(held(b, "2"), "CDS +a@2")
	})
	t.Run("ACK-4 a version that comes back with its content is as good as ever", func(t *testing.T) {
		b := begin(t)
		b.says(cds, "+a@x:x")
		b.says(cds, "+a@y:y")
		b.says(cds, "+a@x:x")
		b.expect(held(b, "x"))
	})
	t.Run("ACK-4 the same for members of a collection", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.join().sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1:x", "+b@1:x")
		b.says(cds, "+a@1:y")
		c := b.join()
		c.resume(cds, []string{"a@1", "b@1"}, "*")
		b.expect(c.collect(), "CDS +a@1")
	})
	t.Run("ACK-4 a server without versions: a digest of the content", func(t *testing.T) {
		b := begin(t)
		b.says(cds, "+a@:x")
		c := b.join()
		c.sub(cds, "a")
		digest, ok := strings.CutPrefix(c.collect()[0], "CDS +a@")
		if !ok || digest == "" || digest != b.infoOf(cds, "a").Version {
			t.Fatalf("digest %q, %+v", digest, b.infoOf(cds, "a"))
		}
		b.expect(held(b, digest))
		b.says(cds, "+a@:y")
		if said := held(b, digest); len(said) != 1 {
			t.Fatalf("skipped other content: %v", said)
		}
		b.says(cds, "+a@:x")
		b.expect(held(b, digest))
	})
	// What the relay presents must not make the server skip what it has not.
	t.Run("ACK-4 RES-12 a version with two contents is not presented to the server", func(t *testing.T) {
		b := begin(t)
		b.says(cds, "+a@1:x")
		b.says(cds, "+a@1:y")
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "CDS +a =a@")
	})
	t.Run("ACK-4 RES-12 a server without versions is presented none of its own", func(t *testing.T) {
		b := begin(t)
		b.says(cds, "+a@:x")
		b.store.Session().Lost(streamOf(0))
		said := b.connect(0)
		if len(said) != 1 || !strings.HasPrefix(said[0], "CDS +a =a@") || strings.HasSuffix(said[0], "@") {
			t.Fatalf("presented %v", said)
		}
	})
}
