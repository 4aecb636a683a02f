package config

import (
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// verifies reports whether clients must present a certificate.
func (t *ServerTLS) verifies() bool { return t.ClientCAFile != "" || t.SPIFFE != nil }

// serverTLS checks where the certificate of a listener comes from; nil: it has none.
func (k *checker) serverTLS(path string, t *ServerTLS) {
	switch {
	case t == nil:
	case t.SPIFFE != nil:
		k.noFiles(path, map[string]string{"cert_file": t.CertFile, "key_file": t.KeyFile, "client_ca_file": t.ClientCAFile, "client_crl_file": t.ClientCRLFile})
		k.spiffe(path+".spiffe", t.SPIFFE.Socket, t.SPIFFE.TrustDomains)
	default:
		k.required(path+".cert_file", t.CertFile)
		k.required(path+".key_file", t.KeyFile)
		if t.ClientCRLFile != "" && t.ClientCAFile == "" {
			k.fail(path+".client_crl_file", "expected client_ca_file too: without it no client shows a certificate")
		}
	}
}

// clientTLS checks where the certificate of connections comes from that the relay opens.
func (k *checker) clientTLS(path string, t *UpstreamTLS) {
	if s := t.SPIFFE; s != nil {
		k.noFiles(path, map[string]string{"cert_file": t.CertFile, "key_file": t.KeyFile, "ca_file": t.CAFile})
		if t.ServerName != "" {
			k.fail(path+".server_name", "expected either spiffe or server_name: a SPIFFE ID takes the place of the name")
		}
		k.spiffe(path+".spiffe", s.Socket, s.TrustDomains)
		k.serverIDs(path+".spiffe", s)
		return
	}
	// A certificate is of no use without its key, nor the other way round.
	if t.CertFile != "" {
		k.required(path+".key_file", t.KeyFile)
	}
	if t.KeyFile != "" {
		k.required(path+".cert_file", t.CertFile)
	}
}

// noFiles refuses files where a Workload API has what they would have.
func (k *checker) noFiles(path string, files map[string]string) {
	for _, key := range []string{"cert_file", "key_file", "ca_file", "client_ca_file", "client_crl_file"} {
		if files[key] != "" {
			k.fail(path+"."+key, "expected either spiffe or %s: the Workload API has certificate, key and CAs", key)
		}
	}
}

// workloadAPI checks the address of a Workload API. Whether it is there is seen at run time: it may come
// later.
func (k *checker) workloadAPI(path, socket string) {
	if socket != "" && (!isUnix(socket) || !strings.HasPrefix(socket, "unix:///")) {
		k.fail(path+".socket", "expected unix:///path, got %q", socket)
	}
}

// tokenSPIFFE checks where a bearer token comes from, and for whom it is.
func (k *checker) tokenSPIFFE(path string, s *TokenSPIFFE) {
	k.workloadAPI(path, s.Socket)
	if len(s.Audiences) == 0 {
		k.fail(path+".audiences", "expected at least one: the name by which the control plane expects its tokens")
	}
	seen := make(map[string]int)
	for i, name := range s.Audiences {
		at := fmt.Sprintf("%s.audiences[%d]", path, i)
		if name == "" {
			k.fail(at, "expected a name, got an empty one")
			continue
		}
		k.once(seen, at, path+".audiences", name, i)
	}
}

// spiffe checks a Workload API, and the trust domains of those at the other end.
func (k *checker) spiffe(path, socket string, domains []string) {
	k.workloadAPI(path, socket)
	seen := make(map[string]int)
	for i, name := range domains {
		at := fmt.Sprintf("%s.trust_domains[%d]", path, i)
		if domain, err := spiffeid.TrustDomainFromString(name); err != nil || domain.Name() != name {
			k.fail(at, "expected the name of a SPIFFE trust domain, like example.org, got %q", name)
			continue
		}
		k.once(seen, at, path+".trust_domains", name, i)
	}
}

// serverIDs checks that each ID can count.
func (k *checker) serverIDs(path string, s *ClientSPIFFE) {
	domains, seen := make(map[string]bool), make(map[string]int)
	for _, name := range s.TrustDomains {
		domains[name] = true
	}
	for i, text := range s.ServerIDs {
		at := fmt.Sprintf("%s.server_ids[%d]", path, i)
		id, err := spiffeid.FromString(text)
		switch {
		case err != nil:
			k.fail(at, "expected a SPIFFE ID, like spiffe://example.org/control-plane, got %q", text)
		case len(domains) > 0 && !domains[id.TrustDomain().Name()]:
			k.fail(at, "expected a SPIFFE ID of one of trust_domains, got %q", text)
		default:
			k.once(seen, at, path+".server_ids", text, i)
		}
	}
}
