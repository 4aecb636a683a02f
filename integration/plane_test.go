package integration

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// testPlane is a control plane whose resources tell their versions, over gRPC, REST and
// in files. It watches how its client behaves. What go-control-plane can do is tested
// against go-control-plane.
type testPlane struct {
	*plane.Plane

	addr string

	// Set before clients come.
	plain  bool   // payloads without unknown fields, for which JSON has no word
	world  string // told by every payload that it makes
	suffix string // ends the version of every resource
	life   int    // told by every payload that it makes: how often it began anew

	mu      sync.Mutex
	version int
	files   *planeFiles // nil: not written
	down    bool
}

func newPlane(t *testing.T, options ...grpc.ServerOption) *testPlane {
	t.Helper()
	p := emptyPlane(options...)
	p.listen(t)
	return p
}

// emptyPlane makes a plane that does not listen.
func emptyPlane(options ...grpc.ServerOption) *testPlane {
	return &testPlane{Plane: plane.New(plane.Behaviour{Absent: plane.AbsentRemoved, LongPoll: patience}, options...)}
}

func (p *testPlane) listen(t *testing.T) {
	t.Helper()
	p.Listen(t)
	p.addr = p.Addr()
}

// start serves a plane that does not listen, without REST.
func (p *testPlane) start(t *testing.T, lis net.Listener) {
	t.Helper()
	p.Serve(lis, nil)
	t.Cleanup(p.Stop)
}

// stop kills the plane as a crash does. Of files it leaves half.
func (p *testPlane) stop() {
	p.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files != nil && !p.down {
		p.files.damage()
	}
	p.down = true
}

// restart brings it back at the same address, with the contents it has now.
func (p *testPlane) restart(t testing.TB) {
	t.Helper()
	p.Restart(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
	p.writeFilesLocked()
}

// beginAnew has a plane that is stopped forget everything and count from one again.
// Nothing that it says from now on has the contents that it had before.
func (p *testPlane) beginAnew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life++
	p.version = 0
	p.Forget()
}

func (p *testPlane) breakStreams() { p.BreakStreams() }

// set adds or changes a resource, and tells every stream that asked for it.
func (p *testPlane) set(typeURL, name string, inStar bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.putLocked(typeURL, name, inStar, "")
}

// put adds or changes a resource with this payload.
func (p *testPlane) put(typeURL, name string, payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	p.storeLocked(typeURL, name, &anypb.Any{TypeUrl: typeURL, Value: payload}, false)
}

// fill gives it so many endpoints "e0", "e1" and so on of a kilobyte, which the wildcard has.
func (p *testPlane) fill(n int) {
	var all []plane.Resource
	for i := range n {
		name := fmt.Sprint("e", i)
		all = append(all, plane.Resource{Name: name, Version: "1", Message: message(endpointType, name, strings.Repeat("x", 1000), "")})
	}
	p.Apply(plane.Change{Set: all})
}

// redirect has a name lead to another one.
func (p *testPlane) redirect(typeURL, name, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	p.storeLocked(typeURL, name, &anypb.Any{TypeUrl: locatorType, Value: locatorTo(target)}, false)
}

// setRoute adds or changes a RouteConfiguration that leads to a cluster.
func (p *testPlane) setRoute(name, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.putLocked(routeType, name, false, target)
}

func (p *testPlane) putLocked(typeURL, name string, inStar bool, target string) {
	p.version++
	p.storeLocked(typeURL, name, p.payloadLocked(typeURL, name, target), inStar)
}

func (p *testPlane) storeLocked(typeURL, name string, payload *anypb.Any, inStar bool) {
	r := plane.Resource{TypeURL: typeURL, Name: name, Payload: payload, Version: strconv.Itoa(p.version) + p.suffix, Unlisted: !inStar}
	if old := p.Covered(typeURL, name); len(old) > 0 {
		r.Unlisted = old[0].Unlisted
	}
	if p.files != nil { // which cannot keep anything from the wildcard
		r.Unlisted = false
	}
	p.Apply(plane.Change{Set: []plane.Resource{r}})
	p.writeFileLocked(typeURL)
}

func (p *testPlane) payloadLocked(typeURL, name, target string) *anypb.Any {
	payload := &anypb.Any{TypeUrl: typeURL}
	if serviceOf(typeURL).name == "" {
		payload.Value = payloadOf(name, p.version)
		return payload
	}
	payload.Value = contents(typeURL, name, fmt.Sprintf("%slife %d, v%d", stampOf(p.world, name), p.life, p.version), target)
	if !p.plain {
		payload.Value = appendUnknown(payload.Value, p.version)
	}
	return payload
}

// unset removes a resource.
func (p *testPlane) unset(typeURL, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.Covered(typeURL, name)) > 0 {
		p.version++
	}
	p.Apply(plane.Change{Remove: []plane.Key{{TypeURL: typeURL, Name: name}}})
	p.writeFileLocked(typeURL)
}

// holds is what a direct client with these subscriptions would hold: version and
// payload by name.
func (p *testPlane) holds(typeURL string, subs map[string]bool) map[string]string {
	want := make(map[string]string)
	for _, r := range p.covered(typeURL, subs) {
		want[r.Name] = r.Version + " " + string(r.Payload.GetValue())
	}
	return want
}

// payloads is what a direct client of any variant would hold.
func (p *testPlane) payloads(typeURL string, subs map[string]bool) map[string]string {
	want := make(map[string]string)
	for _, r := range p.covered(typeURL, subs) {
		want[r.Name] = string(r.Payload.GetValue())
	}
	return want
}

func (p *testPlane) covered(typeURL string, subs map[string]bool) []plane.Resource {
	var names []string
	for n := range subs {
		names = append(names, n)
	}
	return p.Covered(typeURL, names...)
}

// keysOf gives names in their one spelling (NAME-3).
func keysOf(names []string) []string {
	var keys []string
	for _, n := range names {
		if key, err := keyer.Key(n); err == nil {
			n = key
		}
		keys = append(keys, n)
	}
	return keys
}

// awaitPolls waits until a poll of each type is held.
func (p *testPlane) awaitPolls(t testing.TB, types []string) {
	t.Helper()
	for _, typeURL := range types {
		waitFor(t, "a poll that is held", func() bool { return p.Polling(typeURL) > 0 })
	}
}
