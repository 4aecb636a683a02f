package envoy

import (
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
)

// form is how an Envoy asks, and how the relay in front of it asks.
type form struct {
	name  string
	envoy envoyproc.Variant
	up    config.APIType
	// crossed: the relay asks in another form than the Envoy does. An Envoy that is
	// directly at the control plane cannot do that.
	crossed bool
}

// The forms of the protocol.
var (
	deltaADS     = form{name: "incremental ADS", envoy: envoyproc.Variant{Delta: true}, up: config.AggregatedDeltaGRPC}
	stateADS     = form{name: "SotW ADS", up: config.AggregatedGRPC}
	deltaPerType = form{name: "incremental", envoy: envoyproc.Variant{Delta: true, PerType: true}, up: config.DeltaGRPC}
	statePerType = form{name: "SotW", envoy: envoyproc.Variant{PerType: true}, up: config.GRPC}
	polled       = form{name: "REST", envoy: envoyproc.Variant{REST: true}, up: config.REST}
	deltaOnState = form{
		name: "incremental ADS over SotW", envoy: envoyproc.Variant{Delta: true}, up: config.AggregatedGRPC, crossed: true,
	}
	stateOnDelta = form{name: "SotW ADS over incremental", up: config.AggregatedDeltaGRPC, crossed: true}
)

var (
	everyForm = []form{deltaADS, stateADS, deltaPerType, statePerType, polled, deltaOnState, stateOnDelta}
	// adsForms have one stream for all types, and with it an order between them.
	adsForms = []form{deltaADS, stateADS, deltaOnState, stateOnDelta}
	// deltaForms are incremental on both sides: only these have words for on-demand discovery.
	deltaForms = []form{deltaADS, deltaPerType}
)

// side is where the Envoy is.
type side string

const (
	direct  side = "direct"
	relayed side = "relay"
	// passed: at a relay that serves everything 1:1. It is like direct.
	passed side = "1:1"
)

// sides are the sides that a form can be played on.
func (f form) sides() []side {
	if f.crossed {
		return []side{relayed}
	}
	return []side{direct, relayed}
}
