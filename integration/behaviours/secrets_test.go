package behaviours

import (
	"fmt"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/protobuf/proto"
)

// Envoys ask for a secret when the first handshake for its name comes: name by name, for names that
// there are and names that there are not. Each is answered, and what was given is there during an outage.
func TestSecretsOnDemand_RES6_OPS1(t *testing.T) {
	t.Parallel()
	const many = 1000
	for _, form := range []xdsclient.Form{xdsclient.Incremental, xdsclient.SotW} {
		for _, up := range []config.APIType{config.AggregatedDeltaGRPC, config.AggregatedGRPC} {
			for relays := range 3 {
				t.Run(fmt.Sprintf("%v/%s/%d relays", form, up, relays), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, plane.Behaviour{Absent: plane.AbsentRemoved}, relays, up)
					want := make(map[string]proto.Message)
					var all []plane.Resource
					for i := range many / 2 {
						name := fmt.Sprint("s", 2*i)
						want[name] = &tlsv3.Secret{Name: name}
						all = append(all, plane.Resource{Name: name, Message: want[name], Unlisted: true})
					}
					w.plane.Apply(plane.Change{Set: all})
					c := w.dial(form, plane.Secret, "s0")
					for i := range many {
						c.Subscribe(plane.Secret, fmt.Sprint("s", i))
					}
					c.await("secrets", plane.Secret, want)
					if relays == 0 {
						return
					}
					w.plane.Stop()
					later := w.dial(form, plane.Secret, "s0")
					for i := range many {
						later.Subscribe(plane.Secret, fmt.Sprint("s", i))
					}
					later.await("secrets while the control plane is away", plane.Secret, want)
				})
			}
		}
	}
}
