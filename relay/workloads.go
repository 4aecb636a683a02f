package relay

import (
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
)

// clientsOf says whose X509-SVIDs a listener takes, and which it shows; nil: it uses files.
func (r *Relay) clientsOf(s *config.SPIFFE) *credentials.WorkloadParty {
	if s == nil {
		return nil
	}
	return &credentials.WorkloadParty{Sources: r.workloads, Socket: s.Socket, Domains: s.TrustDomains}
}

// serversOf says the same of the connections that the relay opens.
func (r *Relay) serversOf(s *config.ClientSPIFFE) *credentials.WorkloadParty {
	if s == nil {
		return nil
	}
	return &credentials.WorkloadParty{Sources: r.workloads, Socket: s.Socket, Domains: s.TrustDomains, IDs: s.ServerIDs}
}

// tokensOf says which tokens the relay shows; nil: none of a Workload API.
func (r *Relay) tokensOf(s *config.TokenSPIFFE) *credentials.WorkloadTokens {
	if s == nil {
		return nil
	}
	return &credentials.WorkloadTokens{Sources: r.workloads, Socket: s.Socket, Audiences: s.Audiences}
}

// clientTLS says what connections that the relay opens use.
func (r *Relay) clientTLS(t *config.UpstreamTLS, refresh config.Duration) credentials.TLSClientConfig {
	return credentials.TLSClientConfig{
		CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName, SPIFFE: r.serversOf(t.SPIFFE),
		Refresh: refresh.Std(), Panics: r.panics,
	}
}

// unready says why clients cannot connect to one of the listeners: it has no certificate. "" if they
// can.
func (all ports) unready() string {
	for _, p := range all {
		if p.secure == nil {
			continue
		}
		if err := p.secure.Ready(); err != nil {
			return named(p.Name, err).Error()
		}
	}
	return ""
}
