package simulate

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// simulation is one seed's run.
type simulation struct {
	seed     uint64
	choices  choices
	network  *network
	contents *contents
	planes   [2]*server
	relays   [2]*relayProcess
	twin     *relayProcess // the peer of the first one; nil without peers
	fleet    *fleetTLS     // nil without peers
	clients  []*client
	undone   []undo        // in the order of their times
	leapt    time.Duration // by which operations are later
	lost     int           // how often relays lost what they knew: see unguarded

	mu        sync.Mutex
	began     time.Time
	disturbed time.Time // when control planes' streams are in step again, or were last
	events    []string
	failures  []string
	silentBy  time.Time          // until when a list may lack what nobody answered
	names     map[plane.Key]bool // that clients have subscribed to by themselves
	responses int
	verbose   bool
	effects   map[string]int // of operations: see count
	ahead     *ahead         // nil: no peer is behind
}

// server is a control plane on its host.
type server struct {
	host  string
	plane *plane.Plane
	up    bool
	lags  bool // it does not hear of changes
}

// undo ends an operation that lasts.
type undo struct {
	at   time.Time
	what string
	do   func()
}

// outcome is what became of a run.
type outcome struct {
	failures  []string
	events    []string
	effects   string
	responses int
}

// newSimulation is what a seed has, before anything runs.
func newSimulation(tb testing.TB, seed uint64, verbose bool) *simulation {
	tb.Helper()
	s := &simulation{
		seed: seed, choices: choicesOf(seed), network: newNetwork(seed), contents: newContents(choicesOf(seed).delicate), began: time.Now(), verbose: verbose,
		names: make(map[plane.Key]bool), effects: make(map[string]int),
	}
	if s.choices.peers {
		s.fleet = newFleetTLS(tb)
	}
	return s
}

// run plays operations in a bubble, of which it must be called.
func run(tb testing.TB, seed uint64, plan []op, verbose bool) outcome {
	tb.Helper()
	s := newSimulation(tb, seed, verbose)
	s.note("seed %d: %+v", seed, s.choices)
	s.begin()
	for _, o := range plan {
		s.until(s.began.Add(o.at + s.leapt))
		if s.failed() {
			break
		}
		s.perform(o)
	}
	if !s.failed() {
		s.mend()
		s.failOver()
	}
	if !s.failed() {
		s.converge()
	}
	s.end()
	return outcome{s.failures, s.events, s.effectsText(), s.responses}
}

// note adds a line to the log of events.
func (s *simulation) note(format string, args ...any) {
	if !s.logging() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf("%12.6fs ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
}

func (s *simulation) logging() bool { return s.verbose }

func (s *simulation) countResponse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.responses++
}

// fail notes what must not be.
func (s *simulation) fail(format string, args ...any) {
	s.note("FAIL "+format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf("%.3fs ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
}

func (s *simulation) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

// logOf takes the log of a relay, if anybody wants to see it.
func (s *simulation) logOf(host string) io.Writer {
	if !s.verbose {
		return io.Discard
	}
	return logLine{s, host}
}

type logLine struct {
	*simulation
	host string
}

func (l logLine) Write(b []byte) (int, error) {
	l.note("%s: %s", l.host, strings.TrimSpace(string(b)))
	return len(b), nil
}

// begin starts everybody.
func (s *simulation) begin() {
	for i := range s.planes {
		p := &server{host: planeHost(i), plane: plane.New(s.choices.behaviour,
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}))}
		s.planes[i] = p
		s.contents.give(p.host, p.plane, s.contents.latest())
		s.serve(p)
	}
	for i := range s.relays {
		s.relays[i] = &relayProcess{sim: s, tier: i, host: relayHost(i), storage: newStorage(s.seed + uint64(i))}
		s.relays[i].start()
	}
	if s.choices.peers {
		s.twin = &relayProcess{sim: s, host: relayHost(twinAt), storage: newStorage(s.seed + twinAt)}
		s.twin.start()
	}
	for i := range clients {
		c := newClient(s, i)
		s.clients = append(s.clients, c)
		for typeURL, names := range c.member.subs {
			for _, name := range names {
				s.names[plane.Key{TypeURL: typeURL, Name: name}] = true
			}
		}
		c.start()
	}
}

func (s *simulation) serve(p *server) {
	if !p.up {
		p.up = true
		p.plane.Serve(s.network.listen(p.host, xdsPort), s.network.listen(p.host, restPort))
	}
}

func (s *simulation) stop(p *server) {
	s.network.crash(p.host)
	p.plane.Stop()
	p.up = false
}

// until lets time pass, and ends operations that last when it is time.
func (s *simulation) until(at time.Time) {
	for len(s.undone) > 0 && !s.undone[0].at.After(at) {
		s.undoFirst()
	}
	time.Sleep(time.Until(at))
	synctest.Wait()
}

func (s *simulation) undoFirst() {
	u := s.undone[0]
	s.undone = s.undone[1:]
	time.Sleep(time.Until(u.at))
	synctest.Wait()
	s.note("end of %s", u.what)
	u.do()
}

// later ends an operation when its time is over.
func (s *simulation) later(o op, do func()) {
	u := undo{time.Now().Add(o.dur), o.String(), do}
	i, _ := slices.BinarySearchFunc(s.undone, u, func(a, b undo) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	s.undone = slices.Insert(s.undone, i, u)
}

// spread gives the last state to the control planes that hear of changes.
func (s *simulation) spread(what string) {
	if what == "" {
		return
	}
	s.note("contents: %s", what)
	for _, p := range s.planes {
		if !p.lags {
			s.contents.give(p.host, p.plane, s.contents.latest())
		}
	}
}

// perform carries an operation out.
func (s *simulation) perform(o op) {
	if s.skips(o) {
		return
	}
	s.note("op %s", o)
	kinds := types()
	typeURL := kinds[o.a%len(kinds)]
	names := universe(typeURL)
	name := names[o.b%len(names)]
	clusters := numbered("c", 8)
	cluster := clusters[o.b%len(clusters)]
	p, r, c := s.planes[o.a%2], s.relays[o.a%2], s.clients[o.a%len(s.clients)]
	switch o.kind {
	case opSet:
		s.spread(s.contents.set(typeURL, name))
	case opUnset:
		s.spread(s.contents.unset(typeURL, name))
	case opMake:
		s.spread(s.contents.set(plane.Endpoints, cluster))
		s.spread(s.contents.set(plane.Cluster, cluster))
	case opMove:
		s.spread(s.contents.move(numbered("r", 4)[o.c%4], cluster))
	case opBreak:
		s.spread(s.contents.unset(plane.Cluster, clusters[o.c%len(clusters)]))
	case opCrashPlane:
		s.crashPlane(p, o)
	case opMute:
		s.silence(o)
		p.plane.Behave(func(b *plane.Behaviour) { b.Mute = true })
		s.later(o, func() {
			s.disturb()
			p.plane.Behave(func(b *plane.Behaviour) { b.Mute = false })
		})
	case opSlow:
		by := make(map[string]time.Duration) // the same for all, or the control plane itself would break before it makes
		for _, typeURL := range types() {
			by[typeURL] = time.Duration(o.b%5) * time.Second
		}
		p.plane.Behave(func(b *plane.Behaviour) { b.Delay = by })
		s.later(o, func() { p.plane.Behave(func(b *plane.Behaviour) { b.Delay = nil }) })
	case opStreams:
		s.disturb()
		p.plane.BreakStreams()
	case opCut:
		s.cutAnswers(o)
	case opLag:
		if !p.lags {
			p.lags = true
			s.later(o, func() { s.catchUp(p) })
		}
	case opSever, opPart:
		s.silence(o)
		from, to := s.link(o)
		if o.c%2 == 0 {
			from, to = to, from
		}
		s.network.sever(from, to)
		if o.kind == opPart {
			s.network.sever(to, from)
		}
		s.later(o, func() {
			s.network.mend(from, to)
			if o.kind == opPart {
				s.network.mend(to, from)
			}
		})
	case opDrag:
		from, to := s.link(o)
		s.disturbFor(o.dur)
		s.network.drag(from, to, time.Duration(o.c%3000)*time.Millisecond)
		s.network.drag(to, from, time.Duration(o.c/3%3000)*time.Millisecond)
		s.later(o, func() {
			s.network.drag(from, to, 0)
			s.network.drag(to, from, 0)
		})
	case opReset:
		s.network.reset(s.link(o))
	case opCrash:
		s.crashRelay(r, o)
	case opRestart:
		r.end()
		s.later(o, func() {
			r.start()
			s.stillHolds(r)
		})
	case opReload:
		s.disturb()
		r.reload(o.b)
		if r.tier == 0 && r.evicts() {
			s.unguarded()
		}
	case opFull:
		r.storage.fill(true)
		s.later(o, func() { r.storage.fill(false) })
	case opPause:
		c.pause(true)
		s.later(o, func() { c.pause(false) })
	case opHold:
		c.hold(true)
		s.later(o, func() { c.hold(false) })
	case opSub, opUnsub:
		s.subscribe(c, o)
	case opClient:
		c.end()
		c.start()
	case opLeap:
		by := time.Duration(1+o.a%600) * time.Second
		s.leapt += by
		s.until(time.Now().Add(by))
	default:
		s.operate(o)
	}
}

// cutAnswers has one control plane or both break an answer of several parts off, and refuse all
// streams for a while, in which the contents change. It is the first answer to a relay that lost
// everything, or the answer to one that comes back after many changes.
func (s *simulation) cutAnswers(o op) {
	const refuse = 3 * time.Second
	r := s.relays[0]
	if o.a%4 == 0 {
		r = s.relays[1]
	}
	some := s.planes[:]
	if o.c%3 == 0 {
		some = s.planes[o.b%2 : o.b%2+1]
	}
	each := func(do func(*plane.Plane)) {
		s.disturb()
		for _, p := range some {
			do(p.plane)
		}
	}
	parts := 1 + o.c/3%2
	after := parts + o.c/6%12
	kinds := []string{plane.Cluster, plane.Endpoints, plane.Listener}
	typeURL := kinds[o.b/2%len(kinds)]
	each(func(p *plane.Plane) { p.Behave(func(b *plane.Behaviour) { b.PerResponse = parts }) })
	s.later(o, func() {
		each(func(p *plane.Plane) {
			p.Uncut()
			p.Behave(func(b *plane.Behaviour) { b.PerResponse = s.choices.behaviour.PerResponse })
		})
	})
	begin := func() { each(func(p *plane.Plane) { p.Cut(after, refuse) }) }
	if o.b/6%2 == 0 {
		s.crashRelay(r, op{id: o.id, at: o.at, dur: 500 * time.Millisecond, kind: opCrash, b: loseDisk})
		begin()
	} else {
		each(func(p *plane.Plane) { p.Cut(0, cutTime) })
		s.spread(s.contents.stir(typeURL, uint64(o.a)))
		begin()
	}
	s.later(op{id: o.id, at: o.at, dur: 2 * time.Second, kind: opCut}, func() { s.spread(s.contents.stir(typeURL, uint64(o.a)+1)) })
}

// crashPlane kills a control plane. It comes back as it was, some changes behind for a
// while, or with nothing for a while.
func (s *simulation) crashPlane(p *server, o op) {
	if !p.up {
		return
	}
	s.stop(p)
	s.later(o, func() {
		if o.b%3 > 0 && !p.lags {
			p.lags = true
			s.contents.forget(p.host, p.plane)
			if o.b%3 == 1 {
				s.contents.give(p.host, p.plane, s.contents.older(1+o.c%8))
			}
			again := o
			again.dur = time.Duration(o.c%20) * time.Second
			s.later(again, func() { s.catchUp(p) })
		}
		s.serve(p)
	})
}

func (s *simulation) catchUp(p *server) {
	p.lags = false
	s.disturb()
	s.contents.give(p.host, p.plane, s.contents.latest())
}

// loseDisk is what has the disk of a relay that crashes be empty.
const loseDisk = 0

// crashRelay kills a relay. Its disk is what the crash left, what it was before, or empty.
func (s *simulation) crashRelay(r *relayProcess, o op) {
	before := r.storage.image()
	r.crash()
	s.whole(r)
	s.later(o, func() {
		switch {
		case r.runs(): // another operation started it
		case o.b%4 == loseDisk:
			r.storage.wipe()
			s.wiped(r)
		case o.b%4 == 1:
			r.storage.restore(before)
		}
		r.start()
		s.stillHolds(r)
	})
}

// link is a pair of hosts that talk to each other.
func (s *simulation) link(o op) (from, to string) {
	if n := o.b % 8; n < 4 {
		return relayHost(0), planeHost(n % 2)
	} else if n < 6 {
		return relayHost(1), relayHost(0)
	}
	c := s.clients[o.a%len(s.clients)]
	return c.host, c.at
}

// subscribe has a client want a name more, or less.
func (s *simulation) subscribe(c *client, o op) {
	kinds := []string{plane.Endpoints, plane.Route, plane.Secret, plane.Cluster, plane.Listener}
	typeURL := kinds[o.b%len(kinds)]
	names := append(universe(typeURL), globs(typeURL)...)
	name := names[o.c%len(names)]
	s.mu.Lock()
	s.names[plane.Key{TypeURL: typeURL, Name: name}] = true
	s.mu.Unlock()
	if c.subscribe(typeURL, name, o.kind == opSub) {
		s.note("%s: %s %s %s", c, o.kind, keyer.ShortName(typeURL), name)
	}
}

// mend ends all that is wrong.
func (s *simulation) mend() {
	s.note("all is mended")
	s.undoAll()
	for _, p := range s.planes {
		s.catchUp(p)
		s.serve(p)
	}
	for _, r := range s.everyRelay() {
		r.start()
		r.reload(0) // with too little room what a poll asks for is gone before the next
	}
	s.releaseAll()
}

// quiet is how long it may take until all have everything. A name that nobody answers is
// waited for twice 15 s, a list for an unreachable upstream 5 min.
const quiet = 8 * time.Minute

// converge waits until each client holds what it should, and then for some time that nothing
// is sent any more.
func (s *simulation) converge() {
	if !s.wait(quiet) {
		return
	}
	// What comes late must not make it wrong again.
	s.pass(45 * time.Second)
	if d := s.different(); d != "" {
		s.fail("all was as it should be, and then: %s", d)
	}
	s.rest()
	s.disks()
	s.returned()
	s.bounded()
}

// wait waits until each client holds what it should. It reports whether that came in time.
func (s *simulation) wait(most time.Duration) bool {
	begun := time.Now()
	for s.different() != "" && !s.failed() {
		if time.Since(begun) > most {
			s.fail("after %s of quiet: %s", most, s.different())
			s.tellAll()
			return false
		}
		s.pass(time.Second)
	}
	s.note("all is as it should be after %s", time.Since(begun))
	return !s.failed()
}

// rest waits for half a minute in which no client is sent anything. Single responses may still
// come after everything is right: for a name that nobody answers, or for a list of an upstream
// that cannot be reached. They must come to an end, and leave everything right.
func (s *simulation) rest() {
	begun := time.Now()
	for {
		before := s.counted()
		s.pass(30 * time.Second)
		more := s.counted() - before
		if more == 0 {
			break
		}
		s.note("nothing happens, and clients were sent %d responses in 30 s", more)
		if time.Since(begun) > quiet {
			s.fail("nothing happens, and after %s clients are still sent responses: %d in 30 s", quiet, more)
			s.tellAll()
			return
		}
	}
	if d := s.different(); d != "" {
		s.fail("all was as it should be, and then: %s", d)
	}
}

// tellAll notes what the relays have, for who looks for the reason.
func (s *simulation) tellAll() {
	for _, r := range s.everyRelay() {
		for _, page := range []string{"/upstreams", "/clients", "/resources", "/held"} {
			if !s.logging() {
				return
			}
			text, _ := r.get(page)
			s.note("%s%s: %s", r.host, page, text)
		}
	}
}

func (s *simulation) counted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.responses
}

// different says in what the first client differs that does.
func (s *simulation) different() string {
	now := s.contents.latest()
	for _, c := range s.clients {
		if d := c.differs(now); d != "" {
			return fmt.Sprintf("%s: %s", c, d)
		}
	}
	return ""
}

// Bounds of what a simulation at rest takes: some times what it is usually.
const (
	mostGoroutines = 1500
	mostHeap       = 192 << 20
	mostUnderway   = 8 << 10 // bytes: pings, and polls
)

// bounded looks at what is kept, when all is quiet.
func (s *simulation) bounded() {
	for _, r := range s.everyRelay() {
		if text, code := r.get("/check"); code != http.StatusOK {
			s.fail("relay %s is inconsistent: %d %s", r.host, code, text)
		}
	}
	if n := s.network.underway(); n > mostUnderway {
		s.fail("%d bytes are under way in a connection, and nobody reads them", n)
	}
	if n := runtime.NumGoroutine(); n > mostGoroutines {
		s.fail("%d goroutines", n)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > mostHeap {
		s.fail("%d bytes of memory", m.HeapAlloc)
	}
}

// end stops everybody.
func (s *simulation) end() {
	for _, c := range s.clients {
		c.end()
	}
	for _, r := range slices.Backward(s.everyRelay()) {
		r.crash()
	}
	for _, p := range s.planes {
		s.network.crash(p.host)
		p.plane.Stop()
	}
	s.network.close()
}
