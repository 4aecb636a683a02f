package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// holdings are what clients of all variants have in common: what they want, what
// they hold, and what they noticed on the wire.
type holdings struct {
	node string
	// profile is what the node has beside its ID, and watch who hears of every change
	// of what is held; both nil for nothing. They are set before the client connects.
	profile *corev3.Node
	watch   holdingsWatch

	mu        sync.Mutex
	subs      map[string]map[string]bool
	holds     map[string]map[string]held
	absent    map[string]map[string]bool       // told not to exist
	errors    map[string]map[string]codes.Code // of names, the last one each
	counts    map[string]int                   // responses by type since the client connected
	changed   chan struct{}                    // closed and replaced at every change
	gate      chan struct{}                    // not nil: reading waits until it is closed
	silent    map[string]bool                  // types that are not acknowledged
	faults    []string
	asked     map[string]*asked // by type, since the client connected
	ambiguous bool              // see asked
	// distrusted: a reload changed who serves the client, which is sent everything when it
	// comes back, whatever it presents (ACK-4).
	distrusted bool

	// unbroken holds every route that comes to the clusters held at that moment
	// (ADS-1). fresh are the routes that came on this stream: what a client brings
	// along may be ahead of the clusters for as long as it has not asked for both.
	unbroken bool
	fresh    map[string]bool
}

type held struct{ version, payload string }

// holdingsWatch is told what a client is sent, with its mu locked. What it gives is
// noted as a fault, unless it is empty.
type holdingsWatch interface {
	put(typeURL, name string, x held) (fault string)
	removed(typeURL, name string) (fault string)
}

// nodeProto is the node that the client presents.
func (h *holdings) nodeProto(features []string) *corev3.Node {
	n := new(corev3.Node)
	proto.Merge(n, h.profile)
	n.Id, n.ClientFeatures = h.node, append(n.ClientFeatures, features...)
	return n
}

// asked is what a client may expect of one type on this stream, and what may still
// be on its way.
//
// What lost its subscription may still come. If it comes when a collection that
// was subscribed to since would cover it, no client can tell whether it is part of
// that: the client is ambiguous then, and has to begin anew.
type asked struct {
	dropped map[string]bool // names; "*" for whatever a collection had
	covered map[string]bool // the same of what something else brings, or would if it were there

	// How often a content that is held may come again (SUB-5, SUB-6, SUB-8).
	named       map[string]int
	collections int
	used        map[string]int // of collections, by name
}

func newHoldings(node string) holdings {
	return holdings{
		node: node, changed: make(chan struct{}), silent: make(map[string]bool),
		subs: make(map[string]map[string]bool), holds: make(map[string]map[string]held),
		absent: make(map[string]map[string]bool),
	}
}

// common gives the holdings of a client of any variant.
func (h *holdings) common() *holdings { return h }

// beginLocked forgets what belonged to the streams before. A client that is not
// warm forgets what it holds too.
func (h *holdings) beginLocked(warm bool) {
	h.counts, h.asked, h.fresh, h.ambiguous = make(map[string]int), make(map[string]*asked), make(map[string]bool), false
	h.errors = make(map[string]map[string]codes.Code)
	if !warm {
		h.holds = make(map[string]map[string]held)
	}
	if warm && h.distrusted {
		for typeURL := range h.subs {
			h.askedLocked(typeURL).collections++
		}
	}
	h.absent = make(map[string]map[string]bool)
}

func (h *holdings) askedLocked(typeURL string) *asked {
	a := h.asked[typeURL]
	if a == nil {
		a = &asked{dropped: make(map[string]bool), covered: make(map[string]bool), named: make(map[string]int), used: make(map[string]int)}
		if h.asked != nil { // else not connected yet
			h.asked[typeURL] = a
		}
	}
	return a
}

// isCollection tells "*" and globs from names.
func isCollection(name string) bool {
	return strings.HasSuffix(name, "*") || strings.Contains(name, "*?")
}

// wantLocked changes what is wanted.
func (h *holdings) wantLocked(typeURL string, sub, unsub []string) {
	if h.subs[typeURL] == nil {
		h.subs[typeURL] = make(map[string]bool)
	}
	a := h.askedLocked(typeURL)
	for _, n := range unsub {
		delete(h.subs[typeURL], n)
		delete(h.absent[typeURL], n)
	}
	for _, n := range unsub {
		what := n
		if isCollection(n) {
			what = "*"
		}
		if h.wantsLocked(typeURL, n) {
			a.named[n]++ // something else covers it: answered (SUB-8), and leaves no doubt
			a.covered[what] = true
		} else {
			a.dropped[what] = true
		}
	}
	for _, n := range sub {
		h.subs[typeURL][n] = true
		a.named[n]++
		if isCollection(n) {
			a.collections++
		}
	}
	h.bump()
}

func (h *holdings) wantsLocked(typeURL, name string) bool {
	subs := h.subs[typeURL]
	if subs[name] || isCollection(name) {
		return subs[name]
	}
	if g := keyer.GlobOf(name); g != "" {
		return subs[g]
	}
	return subs["*"]
}

func (h *holdings) bump() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// pause stops reading; resume goes on.
func (h *holdings) pause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate == nil {
		h.gate = make(chan struct{})
	}
}

func (h *holdings) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate != nil {
		close(h.gate)
		h.gate = nil
	}
}

// open waits until the client reads, or done.
func (h *holdings) open(done <-chan struct{}) {
	h.mu.Lock()
	gate := h.gate
	h.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-done:
		}
	}
}

// wanted copies a type's subscriptions.
func (h *holdings) wanted(typeURL string) map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.subs[typeURL])
}

// all copies what is held of a type, wanted or not: payload by name.
func (h *holdings) all(typeURL string) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := make(map[string]string, len(h.holds[typeURL]))
	for n, x := range h.holds[typeURL] {
		m[n] = x.payload
	}
	return m
}

// payloads copies what is held and wanted of a type: payload by name. A SotW
// client keeps what it unsubscribed from until the server leaves it out, since a
// server that never saw the unsubscription will not send it again.
func (h *holdings) payloads(typeURL string) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := make(map[string]string, len(h.holds[typeURL]))
	for n, x := range h.holds[typeURL] {
		if h.wantsLocked(typeURL, n) {
			m[n] = x.payload
		}
	}
	return m
}

// isAbsent reports whether the client was told that a resource does not exist.
func (h *holdings) isAbsent(typeURL, name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.absent[typeURL][name]
}

// errorOf is the last error that the client was told of a name since it connected, OK if
// there was none.
func (h *holdings) errorOf(typeURL, name string) codes.Code {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errors[typeURL][name]
}

// takeErrorsLocked takes the errors of a response (ERR-1).
func (h *holdings) takeErrorsLocked(typeURL string, errors []*discovery.ResourceError) {
	for _, x := range errors {
		if h.errors[typeURL] == nil {
			h.errors[typeURL] = make(map[string]codes.Code)
		}
		h.errors[typeURL][x.GetResourceName().GetName()] = codes.Code(x.GetErrorDetail().GetCode())
	}
}

// distrust notes that a reload changes who serves the client.
func (h *holdings) distrust() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.distrusted = true
}

// wasDropped reports whether a name, or what covered it, was unsubscribed from on this
// stream.
func (h *holdings) wasDropped(typeURL, name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.asked[typeURL]
	return a != nil && (a.dropped[name] || a.dropped["*"] || a.covered[name] || a.covered["*"])
}

// count is how many responses of a type came since the client connected.
func (h *holdings) count(typeURL string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[typeURL]
}

// cannotTell reports whether the client holds something of which it cannot know
// whether it should.
func (h *holdings) cannotTell() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ambiguous
}

// found copies the faults.
func (h *holdings) found() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.faults)
}

// patience bounds how long a test waits for what must happen; nothing is asserted
// about how long it takes.
const patience = 20 * time.Second

func (h *holdings) happens(cond func() bool) bool { return h.happensWithin(patience, cond) }

func (h *holdings) happensWithin(limit time.Duration, cond func() bool) bool {
	ctx, cancel := wait.Context(context.Background(), limit)
	defer cancel()
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		if cond() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return cond()
		}
	}
}

// awaitHolding waits until the client holds exactly these names of a type.
func (h *holdings) awaitHolding(t testing.TB, typeURL string, names ...string) {
	t.Helper()
	slices.Sort(names)
	same := func() bool { return slices.Equal(slices.Sorted(maps.Keys(h.payloads(typeURL))), names) }
	if !h.happens(same) {
		t.Fatalf("client %s holds %v, want %v", h.node, slices.Sorted(maps.Keys(h.payloads(typeURL))), names)
	}
}

// faultLocked notes what a server must not do.
func (h *holdings) faultLocked(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}
