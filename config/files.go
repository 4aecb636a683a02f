package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/sockets"
)

// CheckFiles reads the TLS files that the configuration names, looks whether there is
// what its paths name, and whether the relay could write to cache.dir, and reports those that are missing or hold
// something else, like [Config.Validate] does. It is for the command that
// validates a configuration on the machine it is for; the files may change any
// time after.
func (c *Config) CheckFiles() error {
	k := &checker{from: c.from}
	k.serverFiles("server.tls", c.Server.TLS)
	k.issuers("server.identity", &c.Server.Identity)
	for i, l := range c.Server.Listeners {
		k.issuers(fmt.Sprintf("server.listeners[%d].identity", i), &l.Identity)
		k.serverFiles(fmt.Sprintf("server.listeners[%d].tls", i), l.TLS)
	}
	k.serverFiles("admin.tls", c.Admin.TLS)
	if file := c.Admin.TokensFile; file != "" {
		if err := credentials.CheckOperatorList(file); err != nil {
			k.unreadable("admin.tokens_file", file, err)
		}
	}
	for i, u := range c.Upstreams {
		k.clientFiles(fmt.Sprintf("upstreams[%d].tls", i), u.TLS)
		k.token(fmt.Sprintf("upstreams[%d].credentials.token_file", i), u.Credentials.TokenFile)
		if s := u.Credentials.SPIFFE; s != nil {
			k.workload(fmt.Sprintf("upstreams[%d].credentials", i), s.Socket)
		}
		k.exists(fmt.Sprintf("upstreams[%d].path", i), u.Path)
	}
	k.serverFiles("peers.tls", &ServerTLS{CertFile: c.Peers.TLS.CertFile, KeyFile: c.Peers.TLS.KeyFile, SPIFFE: c.Peers.TLS.SPIFFE})
	k.peersFile(c)
	if c.Cache.Dir != "" {
		if err := files.Usable(c.Cache.Dir); err != nil {
			k.fail("cache.dir", "%v: expected a folder that the relay can write", err)
		}
	}
	return join(k.errs)
}

// FileWarnings gives what CheckFiles finds that is no problem if the operator knows of it.
func (c *Config) FileWarnings() []*Error {
	all := c.OpenFiles()
	if c.Cache.Dir != "" && files.Locked(c.Cache.Dir) {
		all = append(all, c.from.errorAt("cache.dir", "a running relay uses %s: a second one does not start with it", c.Cache.Dir))
	}
	return all
}

// OpenFiles warns of files with keys and tokens that every user of the machine may read.
func (c *Config) OpenFiles() (all []*Error) {
	look := func(path, file string) {
		if info, err := os.Stat(file); file != "" && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			all = append(all, c.from.errorAt(path, "every user may read %s: chmod o-r, or in Kubernetes a defaultMode of 0440", file))
		}
	}
	servers := map[string]*ServerTLS{"server.tls": c.Server.TLS, "admin.tls": c.Admin.TLS}
	for i, l := range c.Server.Listeners {
		servers[fmt.Sprintf("server.listeners[%d].tls", i)] = l.TLS
	}
	for _, at := range slices.Sorted(maps.Keys(servers)) {
		if t := servers[at]; t != nil {
			look(at+".key_file", t.KeyFile)
		}
	}
	look("admin.tokens_file", c.Admin.TokensFile)
	for i, u := range c.Upstreams {
		if u.TLS != nil {
			look(fmt.Sprintf("upstreams[%d].tls.key_file", i), u.TLS.KeyFile)
		}
		look(fmt.Sprintf("upstreams[%d].credentials.token_file", i), u.Credentials.TokenFile)
	}
	look("peers.tls.key_file", c.Peers.TLS.KeyFile)
	return all
}

// peersFile checks that the file of the CAs of relays has none that a listener takes.
func (k *checker) peersFile(c *Config) {
	k.roots("peers.tls.ca_file", c.Peers.TLS.CAFile)
	own, others := certificatesIn(c.Peers.TLS.CAFile), c.otherTLS()
	for _, other := range slices.Sorted(maps.Keys(others)) {
		for _, cert := range certificatesIn(others[other].ClientCAFile) {
			if slices.ContainsFunc(own, cert.Equal) {
				k.fail("peers.tls.ca_file", "expected a CA that %s.client_ca_file does not have: both files have %q, and a client of it could pass for a relay", other, cert.Subject)
			}
		}
	}
}

// certificatesIn gives the certificates of a file; none if it has no name. What is wrong with a file others say.
func certificatesIn(file string) (all []*x509.Certificate) {
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	for block := new(pem.Block); err == nil && block != nil; {
		if block, data = pem.Decode(data); block != nil {
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
				all = append(all, cert)
			}
		}
	}
	return all
}

// serverFiles checks what a listener has its certificate from; nil: it has none.
func (k *checker) serverFiles(at string, t *ServerTLS) {
	if t == nil {
		return
	}
	k.keyPair(at, t.CertFile, t.KeyFile)
	k.roots(at+".client_ca_file", t.ClientCAFile)
	if lists := k.read(at+".client_crl_file", t.ClientCRLFile); lists != nil {
		if cas, err := files.Read(t.ClientCAFile, maxFile); err == nil {
			if _, err := credentials.ParseRevoked(lists, cas, time.Now()); err != nil {
				k.fail(at+".client_crl_file", "%s: %v", t.ClientCRLFile, err)
			}
		}
	}
	if t.SPIFFE != nil {
		k.workload(at, t.SPIFFE.Socket)
	}
}

// clientFiles checks what connections that the relay opens have their certificate from; nil: they
// have none.
func (k *checker) clientFiles(at string, t *UpstreamTLS) {
	if t == nil {
		return
	}
	k.keyPair(at, t.CertFile, t.KeyFile)
	k.roots(at+".ca_file", t.CAFile)
	if t.SPIFFE != nil {
		k.workload(at, t.SPIFFE.Socket)
	}
}

// workload checks that there is a file of a Workload API's socket.
func (k *checker) workload(at, socket string) {
	if name, is, err := sockets.Unix(socket); is && err == nil {
		k.exists(at+".spiffe.socket", name)
	}
}

// issuers checks that the files of keys are there.
func (k *checker) issuers(path string, id *Identity) {
	for i, t := range id.JWT {
		at := fmt.Sprintf("%s.jwt[%d]", path, i)
		k.exists(at+".jwks_file", t.JWKSFile)
		k.roots(at+".jwks_ca_file", t.JWKSCAFile)
	}
}

// keyPair checks a certificate and its key; both names may be empty.
func (k *checker) keyPair(path, certFile, keyFile string) {
	cert := k.read(path+".cert_file", certFile)
	key := k.read(path+".key_file", keyFile)
	if cert == nil || key == nil {
		return
	}
	// The error names neither file and holds nothing of the key (OPS-6).
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		k.fail(path+".cert_file", "no certificate and key pair with %s: %v", keyFile, err)
		return
	}
	// The relay does not start with it (package credentials).
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		k.fail(path+".cert_file", "the certificate in %s expired at %s: renew it", certFile, end.UTC().Format(time.RFC3339))
	}
}

// roots checks a file of CA certificates; the name may be empty.
func (k *checker) roots(path, file string) {
	if data := k.read(path, file); data != nil && !x509.NewCertPool().AppendCertsFromPEM(data) {
		k.fail(path, "%s has no certificate in PEM form", file)
	}
}

// token checks a file of a bearer token; the name may be empty.
func (k *checker) token(path, file string) {
	if file == "" {
		return
	}
	if _, err := credentials.ReadToken(file); err != nil {
		k.unreadable(path, file, err)
	}
}

// maxFile bounds a file of certificates or keys, as it does for a running relay.
const maxFile = 4 << 20

// read gives the file's content, nil if it has no name or cannot be read.
func (k *checker) read(path, file string) []byte {
	if file == "" {
		return nil
	}
	data, err := files.Read(file, maxFile)
	if err == nil {
		return data
	}
	k.unreadable(path, file, err)
	return nil
}

// exists checks that there is a file or folder of a name, which may be empty.
// What is in it is judged by the room that reads it.
func (k *checker) exists(path, file string) {
	if file == "" {
		return
	}
	if _, err := os.Stat(file); err != nil {
		k.unreadable(path, file, err)
	}
}

func (k *checker) unreadable(path, file string, err error) {
	reason := err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		reason = pe.Err
	}
	k.fail(path, "reading %s: %v", file, reason)
}
