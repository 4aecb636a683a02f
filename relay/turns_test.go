package relay

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/xdsrelay/xdsrelay/internal/crowd"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// Who begins a scope that others use too does not have it wait behind all its own scopes.
func TestTurnsOfSharedScopes_LIM2(t *testing.T) {
	const many = 100
	honest, attacker := crowd.Of(&keyer.Peer{Addr: "10.0.0.1:1"}), crowd.Of(&keyer.Peer{Addr: "10.0.0.2:1"})
	for _, tt := range []struct {
		name    string
		clients []crowd.Who
		shared  bool
	}{
		{"an honest client begins it", []crowd.Who{honest}, true},
		{"the attacker begins it, and another client comes", []crowd.Who{attacker, honest}, true},
		{"the attacker comes later", []crowd.Who{honest, attacker}, true},
		{"reports of its client's load do not make it shared", []crowd.Who{attacker, {}}, false},
		{"the attacker's alone", []crowd.Who{attacker, attacker}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hub{}
				all := load.NewTurns()
				of := func(scope string, clients ...crowd.Who) upstream.Turns {
					s := &session{key: sessionKey{scope: scope}}
					for _, who := range clients {
						if err := h.seat(claim{from: who}, s); err != nil {
							t.Fatal(err)
						}
						s.users++
					}
					return turnsOf(all, s)
				}
				var order []string
				done := make(chan struct{})
				comes := func(name string, turns upstream.Turns) {
					go func() {
						turn, err := turns.Take(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						order = append(order, name)
						turn.Done()
						done <- struct{}{}
					}()
					synctest.Wait()
				}
				var busy []upstream.Turn
				for range max(2, runtime.GOMAXPROCS(0)) {
					turn, err := of("busy").Take(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					busy = append(busy, turn)
				}
				for i := range many {
					comes("attacker", of(fmt.Sprint(i), attacker))
				}
				comes("shared", of("shared", tt.clients...))
				busy[0].Done()
				for range many + 1 {
					<-done
				}
				for _, turn := range busy[1:] {
					turn.Done()
				}
				if at := slices.Index(order, "shared"); (at <= 1) != tt.shared {
					t.Errorf("LIM-2: the scope has its turn after %d others", at)
				}
			})
		})
	}
}
