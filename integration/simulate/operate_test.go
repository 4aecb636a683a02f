package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// The kinds of operators, and of the outages that the guard and peers are for.
const (
	opFreeze   kind = "operator-hold" // what clients get at a relay is held, until a release or for a time
	opRollback kind = "rollback"      // it goes back to what it was, until a release
	opEmpty    kind = "empty-planes"  // all control planes come back empty, and are complete later
	opDelete   kind = "delete-most"   // the control planes delete most of a type
	opAlone    kind = "planes-away"   // all control planes are away, and a relay loses its disk
)

// mostOperated is how many of these a seed has at most, and operatedTime how long one lasts at most.
const (
	mostOperated = 4
	operatedTime = 50 * time.Second
)

// operatedOf are the operations of these kinds. What else a seed does is the same without them.
func operatedOf(seed uint64, id int, before time.Duration) []op {
	kinds := []kind{opFreeze, opFreeze, opRollback, opRollback, opEmpty, opDelete, opAlone}
	r := rand.New(rand.NewPCG(seed, 3))
	var all []op
	for range r.IntN(mostOperated + 1) {
		at := 20*time.Second + time.Duration(r.Int64N(int64(before)))
		all = append(all, op{
			id: id + len(all), at: at.Round(time.Millisecond), kind: kinds[r.IntN(len(kinds))],
			dur: time.Duration(r.Int64N(int64(operatedTime))).Round(time.Millisecond),
			a:   r.IntN(1 << 16), b: r.IntN(1 << 16), c: r.IntN(1 << 16),
		})
	}
	return all
}

// operate carries out an operation of these kinds.
func (s *simulation) operate(o op) {
	all := s.everyRelay()
	switch r := all[o.a%len(all)]; o.kind {
	case opFreeze:
		s.freeze(r, o)
	case opRollback:
		s.rollBack(r, o)
	case opEmpty:
		s.emptyPlanes(o)
	case opDelete:
		s.deleteMost(o)
	case opAlone:
		s.leaveAlone(o)
	case opRecount:
		s.recount(o)
	case opBehind:
		s.leaveBehind(o)
	case opCold:
		s.leaveCold(o)
	default:
		s.lose(o)
	}
}

// freeze has an operator hold what clients get at a relay: all of it, one scope, or some types.
func (s *simulation) freeze(r *relayProcess, o op) {
	c := &admin.Command{Future: true} // the scope may end meanwhile
	switch o.b % 4 {
	case 0:
		if all := s.generations(r); len(all) > 0 {
			x := &all[o.c%len(all)]
			c.Upstream, c.Scope = x.Upstream, &x.Scope
		}
	case 1:
		c.Types = [][]string{{"cds"}, {"rds"}, {"lds", "rds"}, {"cds", "eds"}}[o.c%4]
	}
	if o.c/4%4 == 0 {
		c.For = (o.dur + time.Second).String()
	}
	s.command(r, o, "/hold", c)
}

// rollBack has an operator go back at a relay: to a generation of one scope, or to a time.
func (s *simulation) rollBack(r *relayProcess, o op) {
	c := new(admin.Command)
	switch all := s.generations(r); {
	case o.b%4 == 0:
		c.At = time.Now().Add(-time.Duration(o.c%60) * time.Second)
	case len(all) == 0:
		return
	default:
		x := &all[o.c%len(all)]
		c.Upstream, c.Scope = x.Upstream, &x.Scope
		c.Generation = &x.Generations[o.b/8%len(x.Generations)].Number
	}
	if o.b/4%4 == 0 {
		c.Types = []string{"rds", "lds"}
	}
	s.command(r, o, "/rollback", c)
}

// command gives a relay a command, and releases what it holds when the operation's time is over.
func (s *simulation) command(r *relayProcess, o op, path string, c *admin.Command) {
	if path == "/rollback" {
		s.rollingBack(r, c)
	}
	until := time.Time{}
	if c.For != "" {
		until = time.Now().Add(o.dur + time.Second)
	}
	done, code := s.post(r, path, c)
	switch {
	case !r.runs():
		return
	case code == http.StatusBadRequest && path == "/rollback": // there is no such state
		return
	case code != http.StatusOK:
		s.fail("relay %s: %s: %d", r.host, path, code)
		return
	}
	_, changed, _ := done.Totals()
	s.count("changed by rollbacks", changed)
	s.judgeRollback(r, c, changed)
	s.holdsFrom(r, c, until, path == "/rollback", &done)
	s.later(o, func() {
		s.count("names held by operators", s.heldNames(r, "operator"))
		if c.For == "" || o.c%2 == 0 {
			again := *c
			again.For, again.Generation, again.At = "", nil, time.Time{}
			if o.c/2%2 == 0 {
				again = admin.Command{} // all that anybody holds
			}
			s.release(r, &again)
		}
	})
}

// judgeRollback looks at a rollback to the state that clients have: nothing changes by it (GATE-4). What changes between
// the question for generations and the command is a generation of its own, before that of the rollback.
func (s *simulation) judgeRollback(r *relayProcess, c *admin.Command, changed int) {
	if c.Generation == nil || changed == 0 {
		return
	}
	for _, x := range s.generations(r) {
		if x.Upstream == c.Upstream && x.Scope == *c.Scope && x.Generations[0].Number <= *c.Generation+1 {
			s.fail("relay %s: a rollback to the generation %d, which clients had, changed %d names (GATE-4)", r.host, *c.Generation, changed)
		}
	}
}

// release ends what operators hold at a relay, and what the guard does.
func (s *simulation) release(r *relayProcess, c *admin.Command) {
	if !r.runs() {
		return
	}
	s.unguarded()
	s.releasing(r)
	_, code := s.post(r, "/release", c)
	// A relay whose orders its disk lost, or never took, refuses a scope that has not come again. stillHolds looks for orders that
	// it should have.
	if lost := code == http.StatusBadRequest && c.Scope != nil && s.orderless(r); code != http.StatusOK && !lost {
		s.fail("relay %s: /release: %d", r.host, code)
	}
	s.releasedAt(r, len(c.Types) > 0)
}

// releaseAll ends what operators hold anywhere.
func (s *simulation) releaseAll() {
	for _, r := range s.everyRelay() {
		s.release(r, new(admin.Command))
	}
}

// post gives a relay a command over a connection that nothing disturbs. A relay that does not run has
// the code 0.
func (s *simulation) post(r *relayProcess, path string, c *admin.Command) (done admin.Done, code int) {
	body, err := json.Marshal(c)
	if err != nil {
		panic(err) // a command that we made
	}
	transport := &http.Transport{DialContext: s.network.dialer(operatorHost), DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	resp, err := client.Post("http://"+r.host+":"+adminPort+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return done, 0
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	s.note("%s: %s %s: %d %s", r.host, path, body, resp.StatusCode, bytes.Join(bytes.Fields(text), []byte(" ")))
	if err != nil || resp.StatusCode != http.StatusOK {
		return done, resp.StatusCode
	}
	if err := json.Unmarshal(text, &done); err != nil {
		s.fail("relay %s: %s: %v", r.host, path, err)
	}
	return done, resp.StatusCode
}

const operatorHost = "10.4.0.1"

// page reads a page of a relay's admin port, and reports whether there was one.
func page[T any](r *relayProcess, path string, to *T) bool {
	text, code := r.get(path)
	return code == http.StatusOK && json.Unmarshal([]byte(text), to) == nil
}

// generations are the scopes of a relay with the states that it remembers, in the order of their names.
func (s *simulation) generations(r *relayProcess) (all []admin.Generations) {
	page(r, "/generations", &all)
	slices.SortFunc(all, func(a, b admin.Generations) int { return strings.Compare(a.Scope, b.Scope) })
	return all
}

// orderless reports whether a relay has no orders.
func (s *simulation) orderless(r *relayProcess) bool {
	var held admin.HeldPage
	return page(r, "/held", &held) && len(held.Orders) == 0
}

// heldNames counts what a relay holds for a reason.
func (s *simulation) heldNames(r *relayProcess, why string) (n int) {
	var held admin.HeldPage
	page(r, "/held", &held)
	for _, x := range held.Held {
		if x.Why == why {
			n += x.Removed + x.Changed
		}
	}
	return n
}

// count adds to what operations have come to.
func (s *simulation) count(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects[what] += n
}

// effectsText is what operations have come to.
func (s *simulation) effectsText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	for _, what := range effects {
		fmt.Fprintf(&b, "; %s: %d", what, s.effects[what])
	}
	return b.String()
}

// effects are what is counted. Over many seeds none of them is 0.
var effects = []string{
	"names held by operators", "changed by rollbacks", "names held by the guard", "taken from peers", "judged while held", "served by peers",
	"counted anew", "taken from a peer that is behind", "judged while a peer is behind",
	"orders that outlived a restart", "kept until the time was over", "kept until a release", "kept until it came back", "passed the guard",
	"told that nobody knows",
}

// addEffects adds what a seed came to (effectsText).
func addEffects(to map[string]int, text string) {
	for part := range strings.SplitSeq(text, "; ") {
		if what, number, is := strings.Cut(part, ": "); is {
			n, err := strconv.Atoi(number)
			if err != nil {
				panic(err) // which we wrote
			}
			to[what] += n
		}
	}
}

// judgeEffects looks whether all operations came to something, if there were enough of them.
func judgeEffects(t *testing.T, come map[string]int) {
	t.Helper()
	t.Log(come)
	for _, what := range effects {
		if *seeds >= 300 && *ops == "" && come[what] == 0 {
			t.Errorf("in %d seeds: %s: none", *seeds, what)
		}
	}
}

// TestOperated: the operations of operators and of outages come beside what a seed does without them.
func TestOperated(t *testing.T) {
	for seed := range uint64(50) {
		kinds := map[kind]bool{opRecount: true, opBehind: true, opCold: true}
		for _, k := range losses {
			kinds[k] = true
		}
		for _, o := range operatedOf(seed, 100, time.Minute) {
			kinds[o.kind] = true
		}
		less := slices.DeleteFunc(planOf(seed), func(o op) bool { return kinds[o.kind] })
		if len(less) < operations {
			t.Errorf("seed %d has %d operations without these", seed, len(less))
		}
		for i, o := range less {
			if o.id >= len(less) || i > 0 && less[i-1].at > o.at {
				t.Errorf("seed %d: %s is at place %d", seed, o, i)
			}
		}
	}
	come := make(map[string]int)
	addEffects(come, "5 responses; taken from peers: 3; judged while held: 0")
	addEffects(come, "7 responses; taken from peers: 2")
	if len(come) != 2 || come["taken from peers"] != 5 {
		t.Error(come)
	}
}

// A relay whose disk is lost is told to release a scope before any client has come back to it.
func TestReleaseLost_GATE4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := run(t, 997, []op{ // which has scopes and disks
			{id: 0, at: 5 * time.Second, dur: time.Hour, kind: opRollback, b: 1, c: 2},
			{id: 1, at: 10 * time.Second, dur: time.Minute, kind: opCrash, b: loseDisk},
		}, true)
		if len(out.failures) > 0 {
			t.Error(out.failures)
		}
		if !slices.ContainsFunc(out.events, func(e string) bool { return strings.Contains(e, "/release") && strings.Contains(e, ": 400 ") }) {
			t.Error("the relay knew the scope")
		}
	})
}

// passesHolds reports whether no order is about a resource: secrets, and what is not to be kept.
func passesHolds(k plane.Key) bool { return k.TypeURL == plane.Secret || k.Name == unkept }
