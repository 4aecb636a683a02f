package credentials

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// maxSize bounds each file: a bundle with every public CA has a quarter of a megabyte.
const maxSize = 4 << 20

// paths names what one side reads; an empty name means not configured.
type paths struct {
	cert, key, ca string
	crl           string // of revocation lists of the CAs
}

// contents is what the files held when they were last read.
type contents struct {
	cert, key, ca, crl []byte
}

func (c contents) equal(o contents) bool {
	return bytes.Equal(c.cert, o.cert) && bytes.Equal(c.key, o.key) && bytes.Equal(c.ca, o.ca) && bytes.Equal(c.crl, o.crl)
}

// material is a usable set of certificate and roots, immutable once built.
type material struct {
	cert  *tls.Certificate // nil without a certificate file
	roots *Roots           // nil without a CA file
}

func (f paths) check() error {
	switch {
	case f.cert != "" && f.key == "":
		return fmt.Errorf("certificate file %s needs a key file", f.cert)
	case f.cert == "" && f.key != "":
		return fmt.Errorf("key file %s needs a certificate file", f.key)
	}
	return nil
}

func (f paths) read() (contents, error) {
	var c contents
	for _, one := range []struct {
		what, name string
		to         *[]byte
	}{{"certificate", f.cert, &c.cert}, {"key", f.key, &c.key}, {"CA", f.ca, &c.ca}, {"revocation list", f.crl, &c.crl}} {
		if one.name == "" {
			continue
		}
		b, err := files.Read(one.name, maxSize)
		if err != nil {
			return contents{}, fmt.Errorf("%s file %s: %w", one.what, one.name, err)
		}
		*one.to = b
	}
	return c, nil
}

// parse turns contents into material. Its errors name the file and never quote
// what is in it.
func (f paths) parse(c contents, now time.Time) (*material, error) {
	m := &material{}
	if f.cert != "" {
		pair, err := tls.X509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("certificate file %s with key file %s: %w", f.cert, f.key, err)
		}
		// An expired certificate is an old file put in the wrong place, or one
		// that nobody renewed: what works now must not be replaced by it.
		if now.After(pair.Leaf.NotAfter) {
			return nil, fmt.Errorf("certificate file %s: expired at %s", f.cert, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		m.cert = &pair
	}
	if f.ca != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(c.ca) {
			return nil, fmt.Errorf("CA file %s: %w", f.ca, errNoCertificate)
		}
		m.roots = RootsOf(pool)
	}
	if f.crl != "" {
		var err error
		if m.roots.revoked, err = ParseRevoked(c.crl, c.ca, now); err != nil {
			return nil, fmt.Errorf("revocation list file %s: %w", f.crl, err)
		}
	}
	return m, nil
}

var errNoCertificate = errors.New("no PEM block in it is a certificate that can be read")
