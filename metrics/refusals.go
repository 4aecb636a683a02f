package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
)

// refusalSeries counts the clients that are turned away before they are served.
type refusalSeries struct {
	handshakes *prometheus.CounterVec // reason
	methods    prometheus.Counter
	identities *prometheus.CounterVec // reason
	admin      *prometheus.CounterVec // reason
	tokens     *prometheus.CounterVec // reason
	access     *Access
}

var _ refusals.Observer = (*refusalSeries)(nil)

func newRefusalSeries(s *set, access *Access) *refusalSeries {
	const subsystem = "downstream"
	d := &refusalSeries{
		handshakes: s.counter(subsystem, "failed_handshakes_total", "TLS handshakes of clients that failed.", labelReason),
		methods:    s.counter(subsystem, "unknown_methods_total", "Calls of gRPC methods that the relay does not have.").WithLabelValues(),
		admin:      s.counter("admin", "refused_total", "Requests that the admin port refused.", labelReason),
		identities: s.counter(subsystem, "identities_ended_total", "Connections and polls of clients whose certificate or token does not count any more.", labelReason),
		tokens:     s.counter(subsystem, "refused_tokens_total", "Streams and polls of clients whose bearer token was refused.", labelReason),
		access:     access,
	}
	for _, r := range refusals.AdminReasons() {
		d.admin.WithLabelValues(string(r))
	}
	for _, r := range identity.Reasons() {
		d.identities.WithLabelValues(string(r))
	}
	for _, r := range []credentials.TokenReason{credentials.ReasonExpired, credentials.ReasonWithdrawn} {
		d.identities.WithLabelValues("token_" + string(r))
	}
	for _, r := range credentials.TokenRefusals() {
		d.tokens.WithLabelValues(string(r))
	}
	for _, r := range refusals.Reasons() {
		d.handshakes.WithLabelValues(string(r))
	}
	return d
}

// HandshakeFailed implements refusals.Observer.
func (d *refusalSeries) HandshakeFailed(reason refusals.Reason) {
	d.handshakes.WithLabelValues(string(reason)).Inc()
}

// MethodUnknown implements refusals.Observer.
func (d *refusalSeries) MethodUnknown() { d.methods.Inc() }

// Unverified implements refusals.Observer.
func (d *refusalSeries) Unverified(rule string) { d.access.Unverified(rule) }

// AdminRefused implements refusals.Observer.
func (d *refusalSeries) AdminRefused(reason refusals.AdminReason) {
	d.admin.WithLabelValues(string(reason)).Inc()
}

// IdentityEnded implements refusals.Observer.
func (d *refusalSeries) IdentityEnded(reason string) { d.identities.WithLabelValues(reason).Inc() }

// TokenRefused implements refusals.Observer.
func (d *refusalSeries) TokenRefused(reason string) { d.tokens.WithLabelValues(reason).Inc() }
