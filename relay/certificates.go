package relay

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// maxCertificate bounds a file with a certificate.
const maxCertificate = 1 << 20

// certificates are those that the relay shows, as they stand in their files now. One of a SPIFFE Workload
// API is renewed by that.
func certificates(c *config.Config) (all []admin.Certificate) {
	add := func(key, file string) {
		if file != "" {
			all = append(all, certificateIn(key, file))
		}
	}
	if t := c.Server.TLS; t != nil {
		add("server.tls", t.CertFile)
	}
	for i, l := range c.Server.Listeners {
		if l.TLS != nil {
			add(fmt.Sprintf("server.listeners[%d].tls", i), l.TLS.CertFile)
		}
	}
	if t := c.Admin.TLS; t != nil {
		add("admin.tls", t.CertFile)
	}
	for i := range c.Upstreams {
		if t := c.Upstreams[i].TLS; t != nil {
			add(fmt.Sprintf("upstreams[%d].tls", i), t.CertFile)
		}
	}
	if t := &c.Peers.TLS; t.CertFile != "" {
		add("peers.tls", t.CertFile)
	}
	return all
}

// certificateIn reads the first certificate of a file, and nothing else of it.
func certificateIn(key, file string) admin.Certificate {
	v := admin.Certificate{Key: key + ".cert_file", File: file}
	data, err := files.Read(file, maxCertificate)
	if err != nil {
		v.Error = err.Error()
		return v
	}
	block, rest := pem.Decode(data)
	for block != nil && block.Type != "CERTIFICATE" { // a file may have its key first
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		v.Error = "no certificate in PEM form"
		return v
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		v.Error = err.Error()
		return v
	}
	v.From, v.Expires = cert.NotBefore, cert.NotAfter
	return v
}
