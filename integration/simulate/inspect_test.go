package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// cacheDir is cache.dir of all relays.
const cacheDir = "/cache"

// writtenWithin is how long a snapshot may take to come: after a write that failed none is tried
// for 5 min.
const writtenWithin = 6 * time.Minute

// kept is one resource of a relay.
type kept struct{ upstream, scope, kind, typeURL, name, version string }

func (k kept) String() string {
	return fmt.Sprintf("%s %s (%s, scope %q) version %s", keyer.ShortName(k.typeURL), k.name, k.kind, k.scope, k.version)
}

// inspect reads what is on a relay's disk as "xdsrelay cache inspect" does. Each file must be whole, at
// any time, and nothing in it may be what is not for a disk (OPS-6, SUR-1).
func (s *simulation) inspect(r *relayProcess, each func(kept, *thing)) {
	err := snapshot.Inspect(r.storage, cacheDir, func(c *snapshot.Contents) {
		if c.Err != nil || !strings.HasSuffix(c.Name, ".snapshot") {
			s.fail("relay %s has a snapshot %s that cannot be used: %v", r.host, c.Name, c.Err)
			return
		}
		for _, t := range c.Image.Tables {
			for _, x := range t.Resources {
				k := kept{c.Header.Upstream, c.Header.Scope, t.Kind.String(), t.TypeURL, x.Resource.Name, x.Resource.Version}
				if x.Resource.DoNotCache || new(payload.Secrets).Sensitive(x.Resource) {
					s.fail("relay %s has %s on its disk (OPS-6)", r.host, k)
				}
				each(k, s.contents.find(x.Resource.Any()))
			}
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.fail("relay %s: its disk: %v", r.host, err)
	}
	if r.storage.leaked() {
		s.fail("relay %s wrote what is not for a disk (OPS-6)", r.host)
	}
}

// whole looks at a disk after a crash.
func (s *simulation) whole(r *relayProcess) { s.inspect(r, func(kept, *thing) {}) }

// disks waits until each relay has on its disk what its stores hold, and compares that with the
// control planes.
func (s *simulation) disks() {
	for _, r := range s.everyRelay() {
		if !s.choices.disk {
			s.whole(r)
			continue
		}
		begun := time.Now()
		for d := s.unlike(r); d != "" && !s.failed(); d = s.unlike(r) {
			if time.Since(begun) > writtenWithin {
				s.fail("relay %s: after %s its disk differs: %s", r.host, writtenWithin, d)
				s.tellAll()
			}
			time.Sleep(5 * time.Second)
		}
	}
}

// unlike says in what a relay's disk differs from its stores, and from the control planes. Files of
// stores that it does not have now do not count.
func (s *simulation) unlike(r *relayProcess) string {
	held := make(map[kept]bool)
	scopes := make(map[[2]string]bool)
	text, code := r.get("/resources")
	var all []struct {
		Upstream string `json:"upstream"`
		Scope    string `json:"scope"`
		TypeURL  string `json:"type_url"`
		Name     string `json:"name"`
		Kind     string `json:"kind"`
		Version  string `json:"version"`
		Bytes    int    `json:"bytes"`
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || code != http.StatusOK {
		return fmt.Sprintf("/resources: %d, %v", code, err)
	}
	for _, x := range all {
		scopes[[2]string{x.Upstream, x.Scope}] = true
		k := plane.Key{TypeURL: x.TypeURL, Name: x.Name}
		if x.Bytes > 0 && x.TypeURL != plane.Secret && !s.contents.private(k) {
			held[kept{x.Upstream, x.Scope, x.Kind, x.TypeURL, x.Name, x.Version}] = true
		}
	}
	var found []string
	now := s.contents.latest()
	s.inspect(r, func(k kept, is *thing) {
		if !scopes[[2]string{k.upstream, k.scope}] {
			return
		}
		key := plane.Key{TypeURL: k.typeURL, Name: k.name}
		want := now[key]
		// It need not be in a store: what was evicted is on the disk until something else changes.
		if is == nil || is != want && (want != nil || !s.mayStay(r.tier, key)) {
			found = append(found, fmt.Sprintf("%s is %s, and the control planes have %s", k, is, want))
		}
		delete(held, k)
	})
	for k := range held {
		found = append(found, fmt.Sprintf("%s is only in a store", k))
	}
	slices.Sort(found)
	return strings.Join(found, "; ")
}
