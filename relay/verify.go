package relay

import (
	"errors"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
)

// unverified counts and logs the clients that may not present their nodes (ACC-5).
type unverified struct {
	metrics  *metrics.Access
	refusals *refusals.Log
}

// begin is called with the names of the rules of a new plan.
func (u unverified) begin(names, shadows []string) {
	if u.metrics != nil {
		u.metrics.Rules(names)
		u.metrics.ShadowRules(shadows)
	}
}

// refuse gives the status that ends the client's stream or poll.
func (u unverified) refuse(node *corev3.Node, peer *keyer.Peer, err error) error {
	if e, ok := errors.AsType[*rules.UnverifiedError](err); ok {
		u.refusals.Unverified(&refusals.Unverified{
			From: peer.Addr, Identity: peer.Identity(), Node: node.GetId(), Rule: e.Rule, Reason: e.Reason(),
		})
	}
	return status.Error(codes.PermissionDenied, err.Error())
}
