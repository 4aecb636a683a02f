package envoy

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// scenario is one row of the table in docs/differences.md. It is played in each of its
// forms, directly at a control plane and through the relay, with the same assertions;
// where the relay has to do better than a control plane, the scenario asks for that of
// the relay only.
type scenario struct {
	name      string
	proves    string // requirements
	forms     []form
	behaviour plane.Behaviour
	fetch     time.Duration        // see resources
	relay     func(*config.Config) // settings of the relay
	only      side                 // "": on both sides
	tiers     int                  // relays in a row where there are any; 0 is one
	pair      bool                 // there are two relays instead, and Envoys may go to either
	peers     bool                 // these ask each other
	disk      bool                 // relays keep snapshots on a disk
	killed    bool                 // relays are processes that end without a word
	second    bool                 // there is a second control plane, the relays' second endpoint
	mutual    bool                 // Envoys and the relay show each other certificates
	pipe      bool                 // Envoys reach the relay over a unix socket
	goCP      bool                 // the control plane is go-control-plane itself
	plain     bool                 // and not in its ADS mode
	alone     bool                 // it is disturbed by others that play at the same time
	same      *same                // what its plays have in common that are compared with each other
	play      func(*world)
}

// playAll plays scenarios in all their forms, on all sides.
func playAll(t *testing.T, scenarios []scenario) {
	t.Helper()
	binary(t)
	for i := range scenarios {
		s := &scenarios[i]
		for _, f := range s.forms {
			for _, at := range s.sides(f) {
				t.Run(s.name+"/"+f.name+"/"+string(at), func(t *testing.T) {
					if !s.alone {
						t.Parallel()
					}
					playOne(t, s, f, at)
				})
			}
		}
	}
}

// sides are the sides on which the scenario is played in a form.
func (s *scenario) sides(f form) []side {
	if s.only != "" {
		return []side{s.only}
	}
	return f.sides()
}

// playOne plays a scenario once, and compares what it finds wrong with what is known.
func playOne(t *testing.T, s *scenario, f form, at side) {
	t.Helper()
	begin := time.Now()
	w := newWorld(t, s, f, at)
	w.run(func() { s.play(w) })
	faults, notes := w.result()
	k := knownFault(s.name, f.name, at)
	switch {
	case faults == "" && k == nil:
	case faults == "" && k.sometimes:
	case faults == "":
		t.Errorf("nothing is wrong any more: take this off the list of %s: %s", k.list(), k.seen)
	case k == nil:
		t.Errorf("%s: %s", s.proves, faults)
	default:
		t.Logf("known (%s): %s", k.requirement, faults)
	}
	if notes != "" {
		t.Log(notes)
	}
	report(t, s, f, at, outcome{faults: faults, notes: notes, took: time.Since(begin)})
}
