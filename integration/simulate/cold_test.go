package simulate

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// opCold has all control planes away while all relays lose their disks, and all clients forget everything: nobody
// knows anything, and the relays of the first tier ask each other. Clients must be told (ABS-2), and nobody goes on
// asking.
const opCold kind = "all-cold"

// coldOf are the operations of this kind: one in some of the seeds with peers. What else a seed does is the same
// without them.
func coldOf(seed uint64, id int, before time.Duration) []op {
	r := rand.New(rand.NewPCG(seed, 7))
	if !choicesOf(seed).peers || r.IntN(3) > 0 {
		return nil
	}
	at := 20*time.Second + time.Duration(r.Int64N(int64(before)))
	return []op{{id: id, at: at.Round(time.Millisecond), kind: opCold, a: r.IntN(1 << 16), b: r.IntN(1 << 16), c: r.IntN(1 << 16)}}
}

const (
	// coldTime is how long nobody knows anything. Clients are told within server.unreachable_after, a look, and the time
	// that peers take that answer.
	coldTime = 30 * time.Second
	// askedInSecond is how often a relay looks for whom to ask, for each store.
	askedInSecond = 5
	// coldStores is how many stores a relay has at most: of two scopes, and of xdstp names.
	coldStores = 3
)

// leaveCold carries the operation out.
func (s *simulation) leaveCold(o op) {
	if s.twin == nil {
		return
	}
	s.undoAll()
	s.releaseAll()
	for _, p := range s.planes {
		s.stop(p)
	}
	for _, c := range s.clients {
		c.end()
	}
	for _, r := range s.everyRelay() {
		s.crashRelay(r, op{id: o.id, at: o.at, dur: time.Second, kind: opCrash, b: loseDisk})
	}
	s.passAlone(2 * time.Second)
	for _, c := range s.clients {
		c.start()
	}
	s.passAlone(coldTime)
	s.judgeCold()
	for _, p := range s.planes {
		s.disturb()
		s.serve(p)
	}
	s.passAlone(afresh)
}

// judgeCold looks whether nobody has got anything, all are told so, and relays do not ask more than their own
// clients do.
func (s *simulation) judgeCold() {
	for _, c := range s.clients {
		if n := len(c.everServed()); n > 0 {
			s.fail("%s was given %d resources, and nobody has any", c, n)
		}
	}
	for _, r := range s.everyRelay() {
		told := metric(r, "xdsrelay_downstream_streams_unserved_total")
		if told == 0 {
			s.fail("relay %s knows nothing, and has not told its clients (ABS-2)", r.host)
			s.tellAll()
		}
		s.count("told that nobody knows", told)
		if r.tier > 0 {
			continue
		}
		if asked, most := metric(r, "xdsrelay_peer_asked_total"), askedInSecond*coldStores*int(coldTime/time.Second); asked > most {
			s.fail("relay %s asked its peer %d times in %s, at most %d are its own clients'", r.host, asked, coldTime, most)
		}
		s.judgeDemand(r, nil)
	}
}

// everServed is what the client was given since it started.
func (c *client) everServed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for k := range c.served {
		all = append(all, k.Name)
	}
	return all
}

// metric is the sum of a metric of a relay, over its labels.
func metric(r *relayProcess, name string) int {
	text, _ := r.get("/metrics")
	sum := 0.0
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && (series == name || strings.HasPrefix(series, name+"{")) {
			sum += n
		}
	}
	return int(sum)
}
