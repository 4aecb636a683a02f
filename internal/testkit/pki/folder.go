package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
)

// Folder is where a test keeps its files. Every file is replaced by rename, so
// that a reader finds the old one or the new one and never a part.
type Folder struct {
	tb   TB
	path string
}

// NewFolder makes a folder that goes away with the test.
func NewFolder(tb TB) *Folder {
	tb.Helper()
	return &Folder{tb: tb, path: tb.TempDir()}
}

// Path is where the file of that name is, or would be; the folder itself for "".
func (f *Folder) Path(name string) string { return filepath.Join(f.path, name) }

// Put writes a file and returns its path.
func (f *Folder) Put(name string, content []byte) string {
	f.tb.Helper()
	path := f.Path(name)
	next := path + ".new"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		f.tb.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		f.tb.Fatal(err)
	}
	return path
}

// PutCA writes the authority's own certificate as name.crt.
func (f *Folder) PutCA(name string, a *Authority) string {
	f.tb.Helper()
	return f.PutCert(name, a.root)
}

// PutPair writes a certificate as name.crt, and then its key as name.key: a
// reader may come between the two.
func (f *Folder) PutPair(name string, c tls.Certificate) (certFile, keyFile string) {
	f.tb.Helper()
	return f.PutCert(name, c), f.PutKey(name, c)
}

// PutCert writes a certificate without its key as name.crt.
func (f *Folder) PutCert(name string, c tls.Certificate) string {
	f.tb.Helper()
	return f.Put(name+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Leaf.Raw}))
}

// PutKey writes the key of a certificate as name.key.
func (f *Folder) PutKey(name string, c tls.Certificate) string {
	f.tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		f.tb.Fatal(err)
	}
	return f.Put(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
