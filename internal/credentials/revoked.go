package credentials

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Revoked are the certificates that CAs revoked: serial numbers by issuer. It does not change.
type Revoked struct{ serials map[string]map[string]bool }

var (
	errRevoked = errors.New("the certificate is revoked (client_crl_file)")
	errNoList  = errors.New("no PEM block in it is a revocation list (X509 CRL)")
	errNoEnd   = errors.New("a revocation list in it is not whole")
)

// ParseRevoked reads revocation lists in PEM form. Each must be signed by one of the CAs of a bundle, and its time for the next one
// must not be over: an old file put in the place of a new one would trust again what was revoked since.
func ParseRevoked(lists, cas []byte, now time.Time) (*Revoked, error) {
	issuers := certificatesOf(cas)
	r := &Revoked{make(map[string]map[string]bool)}
	begun := bytes.Count(lists, []byte("-----BEGIN X509 CRL-----"))
	for block := new(pem.Block); block != nil; {
		if block, lists = pem.Decode(lists); block == nil || block.Type != "X509 CRL" {
			continue
		}
		begun--
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, err
		}
		signs := func(ca *x509.Certificate) bool {
			return bytes.Equal(ca.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(ca) == nil
		}
		switch {
		case !slices.ContainsFunc(issuers, signs):
			return nil, fmt.Errorf("none of the CAs of client_ca_file signed the list of %q", list.Issuer)
		case !list.NextUpdate.IsZero() && now.After(list.NextUpdate):
			return nil, fmt.Errorf("the list of %q should have been replaced at %s", list.Issuer, list.NextUpdate.UTC().Format(time.RFC3339))
		}
		of := r.serials[string(list.RawIssuer)]
		if of == nil {
			of = make(map[string]bool)
			r.serials[string(list.RawIssuer)] = of
		}
		for _, entry := range list.RevokedCertificateEntries {
			of[entry.SerialNumber.String()] = true
		}
	}
	switch {
	case begun > 0: // pem.Decode passes over it
		return nil, errNoEnd
	case len(r.serials) == 0:
		return nil, errNoList
	}
	return r, nil
}

// certificatesOf gives the certificates of a bundle.
func certificatesOf(bundle []byte) (all []*x509.Certificate) {
	for block := new(pem.Block); block != nil; {
		if block, bundle = pem.Decode(bundle); block != nil {
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
				all = append(all, cert)
			}
		}
	}
	return all
}

// chain reports whether a certificate of a chain is revoked.
func (r *Revoked) chain(chain []*x509.Certificate) bool {
	return slices.ContainsFunc(chain, func(c *x509.Certificate) bool { return r.serials[string(c.RawIssuer)][c.SerialNumber.String()] })
}

// left gives the chains without revoked certificates. The error says that there are none.
func (r *Revoked) left(chains [][]*x509.Certificate) ([][]*x509.Certificate, error) {
	if r == nil {
		return chains, nil
	}
	if chains = slices.DeleteFunc(chains, r.chain); len(chains) == 0 {
		return nil, errRevoked
	}
	return chains, nil
}

func (r *Revoked) equal(o *Revoked) bool {
	if r == nil || o == nil {
		return r == o
	}
	return maps.EqualFunc(r.serials, o.serials, maps.Equal)
}
