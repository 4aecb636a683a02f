package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

type wireSubscription = wire.Subscription

// longNames gives different names of about 100 bytes that take at least total.
func longNames(total int) (names []string) {
	for i := 0; i*100 < total; i++ {
		names = append(names, fmt.Sprintf("%0100d", i))
	}
	return names
}

// checkRequests asserts what must hold for every subscription, RES-17.
func checkRequests(t *testing.T, s wire.Subscription, reserved, limit int) {
	t.Helper()
	var subscribed, unsubscribed []string
	for i, req := range requests(s, reserved, limit) {
		size := proto.Size(req)
		if i == 0 {
			size += reserved
		}
		names := len(req.GetResourceNamesSubscribe()) + len(req.GetResourceNamesUnsubscribe())
		switch {
		case names == 0:
			t.Errorf("request %d without names means the wildcard", i)
		case size > limit && names > 1:
			t.Errorf("request %d has %d bytes of %d", i, size, limit)
		case req.GetTypeUrl() != s.TypeURL:
			t.Errorf("request %d is of type %q", i, req.GetTypeUrl())
		case req.GetResponseNonce() != "":
			t.Errorf("STR-9: request %d has a nonce", i)
		}
		if i > 0 && len(req.GetInitialResourceVersions()) > 0 {
			t.Errorf("request %d has versions, which belong into the first", i)
		}
		for name := range s.Versions {
			// A version goes with the name's subscription, or with that of its collection.
			_, has := req.GetInitialResourceVersions()[name]
			member := !slices.Contains(s.Subscribe, name)
			if i == 0 && has != (member || slices.Contains(req.GetResourceNamesSubscribe(), name)) {
				t.Errorf("RES-12: the version of %q is in the first request: %t", name, has)
			}
		}
		subscribed = append(subscribed, req.GetResourceNamesSubscribe()...)
		unsubscribed = append(unsubscribed, req.GetResourceNamesUnsubscribe()...)
	}
	if len(s.Versions) > 0 { // what is held goes first
		slices.Sort(subscribed)
		s.Subscribe = slices.Sorted(slices.Values(s.Subscribe))
	}
	if !slices.Equal(subscribed, s.Subscribe) || !slices.Equal(unsubscribed, s.Unsubscribe) {
		t.Errorf("%d + %d names written of %d + %d, or in another order", len(subscribed), len(unsubscribed), len(s.Subscribe), len(s.Unsubscribe))
	}
}

func TestRES17Split(t *testing.T) {
	versions := map[string]string{}
	for _, name := range longNames(50_000) {
		versions[name] = "version"
	}
	for name, tt := range map[string]struct {
		sub             wire.Subscription
		reserved, limit int
		want            int
	}{
		"nothing":                   {wire.Subscription{TypeURL: clusters, Versions: versions}, 0, 1 << 20, 0},
		"one":                       {sub(clusters, "*"), 0, 1 << 20, 1},
		"split":                     {sub(endpoints, longNames(1<<20)...), 0, 1 << 18, 5},
		"room for the node":         {sub(endpoints, longNames(100_000)...), 60_000, 1 << 17, 2},
		"subscribe and unsubscribe": {wire.Subscription{TypeURL: endpoints, Subscribe: longNames(100_000), Unsubscribe: longNames(100_000)}, 0, 1 << 17, 2},
		"versions fill the first":   {wire.Subscription{TypeURL: endpoints, Subscribe: longNames(50_000), Versions: versions}, 0, 60_000, 2},
		"members in the first":      {wire.Subscription{TypeURL: endpoints, Subscribe: append(longNames(20_000), "*"), Versions: versions}, 0, 70_000, 2},
		"a name beyond the limit":   {sub(endpoints, "a", strings.Repeat("x", 1000), "b"), 0, 500, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(requests(tt.sub, tt.reserved, tt.limit)); got != tt.want {
				t.Errorf("%d requests, want %d", got, tt.want)
			}
			if tt.want > 0 {
				checkRequests(t, tt.sub, tt.reserved, tt.limit)
			}
		})
	}
}

func FuzzRES17Split(f *testing.F) {
	f.Add("a b c", "d", 100, 10)
	f.Add("*", "", 0, 0)
	f.Add(strings.Repeat("name ", 100), strings.Repeat("longer-name ", 50), 300, 50)
	f.Fuzz(func(t *testing.T, subscribe, unsubscribe string, limit, reserved int) {
		if limit < 0 || reserved < 0 || limit > 1<<30 || reserved > 1<<30 {
			t.Skip()
		}
		s := wire.Subscription{TypeURL: clusters, Subscribe: strings.Fields(subscribe), Unsubscribe: strings.Fields(unsubscribe)}
		if len(s.Subscribe)+len(s.Unsubscribe) == 0 {
			t.Skip()
		}
		checkRequests(t, s, reserved, limit)
	})
}

// What leaves the session keeps within the limit, node included.
func TestRES17OnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		cfg := n.config("a")
		cfg.MaxRequestSize = 10_000
		run(t, newUpstream(t, cfg), newStore(sub(endpoints, longNames(100_000)...)), nil)
		ss := srv.accept()
		names := 0
		for names < len(longNames(100_000)) {
			req := ss.next()
			if size := proto.Size(req); size > cfg.MaxRequestSize {
				t.Fatalf("a request of %d bytes", size)
			}
			names += len(req.GetResourceNamesSubscribe())
		}
	})
}

func TestVersionsLimit(t *testing.T) {
	if got, want := versionsLimit(DefaultMaxRequestSize, 1000), DefaultMaxRequestSize-1000-maxNameRoom; got != want {
		t.Errorf("limit = %d, want %d", got, want)
	}
	if got := versionsLimit(1000, 500); got != 250 {
		t.Errorf("limit = %d, want 250", got)
	}
}

func TestDetail_ACK7(t *testing.T) {
	long := detail(fmt.Errorf("cluster c1: %s: no such thing", strings.Repeat("é", 2*maxReason)))
	if len(long) > 2*maxReason+64 || strings.ToValidUTF8(long, "") != long {
		t.Errorf("%d bytes, or not UTF-8", len(long))
	}
	if !strings.HasPrefix(long, "cluster c1: é") || !strings.HasSuffix(long, "é: no such thing") {
		t.Errorf("%.20s … %s: head and tail stay", long, long[len(long)-20:])
	}
	// A client's reason that was shortened once, with the longest name before it, is not cut again.
	once := strings.Repeat("n", 1<<10) + ": " + logs.Excerpt(strings.Repeat("x", 1<<20), logs.ReasonBytes)
	if got := detail(errors.New(once)); got != once {
		t.Errorf("%d bytes of %d are left", len(got), len(once))
	}
}
