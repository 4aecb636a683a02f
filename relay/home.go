package relay

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Home is who serves an xdstp name. The aggregation rules play no part in it.
type Home struct {
	Upstream string       // of its authority; "" if only an alternative has one
	Resolved bool         // the relay resolves the name by itself, starting there
	Node     *corev3.Node // what the control plane is shown
}

// HomeOf says who serves a name under a valid configuration (LOC-3). The error is that
// no upstream has the authority (LOC-4).
func HomeOf(cfg *config.Config, name keyer.Name) (Home, error) {
	p, err := newPlan(cfg)
	if err != nil {
		return Home{}, err
	}
	at, _, err := p.home(name)
	if err != nil {
		return Home{}, err
	}
	return Home{Upstream: p.authorities.Owner(name.Authority), Resolved: at.resolved, Node: p.node}, nil
}
