package simulate

import (
	"fmt"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// newsWithin is how long news may take to all clients while one control plane has them and the other
// one is mute (SUR-2). A relay leaves a mute one within 70 s.
const newsWithin = 2 * time.Minute

// failOver has one control plane fall silent, when all is well, and the other one have news. All
// clients must have them while the first one is still silent.
func (s *simulation) failOver() {
	if !s.wait(quiet) {
		return
	}
	how := chance(s.seed, "fail-over")
	mute, other := s.planes[0], s.planes[1] // the relay is with the first, mostly
	if how%4 == 0 {
		mute, other = other, mute
	}
	some := func(i int) time.Duration { // up to 20 s
		return time.Duration(chance(s.seed, "fail-over", i)%20_000) * time.Millisecond
	}
	s.note("fail-over %d: %s falls silent, %s has news", how/2%4, mute.host, other.host)
	s.silence(op{dur: s.newsIn()})
	s.disturb()
	silent := func(on bool) { mute.plane.Behave(func(b *plane.Behaviour) { b.Mute = on }) }
	switch how / 2 % 4 {
	case 0:
		silent(true)
		s.stop(other)
		s.news()
		s.pass(some(0))
		s.serve(other)
	case 1:
		silent(true)
		s.pass(some(0))
		s.news()
	case 2: // it accepts streams again, and answers nothing
		s.stop(mute)
		s.pass(some(0) + some(1))
		silent(true)
		s.serve(mute)
		s.pass(some(2))
		s.news()
	default: // and nobody is told
		s.network.sever(relayHost(0), mute.host)
		s.network.sever(mute.host, relayHost(0))
		s.pass(some(0))
		s.news()
	}
	if !s.wait(s.newsIn()) {
		return
	}
	s.note("all have the news")
	if how/2%4 == 3 {
		s.network.mend(relayHost(0), mute.host)
		s.network.mend(mute.host, relayHost(0))
	}
	s.disturb()
	silent(false)
}

// news changes much of everything.
func (s *simulation) news() {
	for i, typeURL := range []string{plane.Endpoints, plane.Cluster, plane.Listener} {
		s.spread(s.contents.stir(typeURL, s.seed+uint64(i)))
	}
	for _, name := range universe(plane.Route) {
		s.spread(s.contents.set(plane.Route, name))
	}
}

func (s *simulation) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// returnedWithin is more than twice how often a relay tries a better server (upstreams[].failback).
const returnedWithin = 2 * time.Minute

// returned waits until each session is back at a server of the first priority: all of them answer (LOC-6).
func (s *simulation) returned() {
	begun := time.Now()
	for away := s.away(); away != "" && !s.failed(); away = s.away() {
		if time.Since(begun) > returnedWithin {
			s.fail("after %s of quiet more: %s (LOC-6)", returnedWithin, away)
			s.tellAll()
		}
		s.pass(time.Second)
	}
}

// away says which session has streams to a server of a lower priority; "" if there is none.
func (s *simulation) away() string {
	for _, r := range s.everyRelay() {
		var all []struct {
			Retired  bool `json:"retired"`
			Replicas []struct {
				Endpoint string `json:"endpoint"`
				Priority int    `json:"priority"`
			} `json:"replicas"`
			Sessions []struct {
				Scope    string `json:"scope"`
				Endpoint string `json:"endpoint"`
				Streams  int    `json:"streams"`
			} `json:"sessions"`
		}
		if !page(r, "/upstreams", &all) {
			return r.host + " does not tell"
		}
		for _, u := range all {
			priority := make(map[string]int)
			for _, x := range u.Replicas {
				priority[x.Endpoint] = x.Priority
			}
			for _, x := range u.Sessions {
				if !u.Retired && x.Streams > 0 && priority[x.Endpoint] > 0 {
					return fmt.Sprintf("relay %s: the session of scope %q is at %s still", r.host, x.Scope, x.Endpoint)
				}
			}
		}
	}
	return ""
}
