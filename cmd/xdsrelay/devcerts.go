package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
)

const (
	devLifetime   = 30 * 24 * time.Hour
	devRelayID    = "spiffe://xdsrelay.test/relay"
	devClientID   = "spiffe://xdsrelay.test/client"
	devKeyMode    = 0o600
	devFolderMode = 0o700
)

func devCertsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev-certs DIR",
		Short: "Make certificates to try TLS with",
		Long: `Make certificates to try TLS with. They last 30 days. The keys of the authorities are
thrown away: there can be no more certificates later.

  ca.pem                      authority of the servers: for clients
  server.pem, server-key.pem  the relay's server, for localhost, 127.0.0.1, ::1 and each --host
  clients-ca.pem              authority of the clients: client_ca_file of the relay
  client.pem, client-key.pem  a client, ` + devClientID + `
  relays-ca.pem               authority of the relays, for peers
  relay.pem, relay-key.pem    a relay at its peers, ` + devRelayID + `

DIR is made if it does not exist. The command overwrites nothing.

` + localExitCodes("a file exists, or cannot be written"),
		Example: `  xdsrelay dev-certs certs
  xdsrelay dev-certs certs --host xdsrelay-1 --host 10.0.0.7`,
		Args: arguments(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	hosts := cmd.Flags().StringArray("host", nil, "one more `name` or address of the servers; repeatable")
	cli.Complete(cmd, "host")
	cmd.RunE = cli.Action(func(cmd *cobra.Command, args []string) error {
		return makeDevCerts(cmd.OutOrStdout(), args[0], append([]string{"localhost", "127.0.0.1", "::1"}, *hosts...))
	})
	return cmd
}

// devFile is a file of dev-certs.
type devFile struct {
	name string
	pem  []byte
}

// makeDevCerts makes everything before it writes anything.
func makeDevCerts(out io.Writer, dir string, hosts []string) error {
	var files []devFile
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, kind := range []struct {
		authority, name, id string
		usage               []x509.ExtKeyUsage
	}{
		{"ca.pem", "server", "", both[:1]},
		{"clients-ca.pem", "client", devClientID, both[1:]},
		{"relays-ca.pem", "relay", devRelayID, both}, // at its peers a relay is server and client
	} {
		ca, caKey, err := devCertificate(&x509.Certificate{
			Subject: pkix.Name{CommonName: "xdsrelay dev-certs, " + kind.name},
			IsCA:    true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}, nil, nil)
		if err != nil {
			return err
		}
		leaf := &x509.Certificate{Subject: pkix.Name{CommonName: kind.name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: kind.usage}
		if kind.id != "" {
			id, err := url.Parse(kind.id)
			if err != nil {
				return err
			}
			leaf.URIs = []*url.URL{id}
		}
		if kind.name != "client" {
			addHosts(leaf, hosts)
		}
		cert, key, err := devCertificate(leaf, ca, caKey)
		if err != nil {
			return err
		}
		keyDER, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return err
		}
		files = append(files,
			devFile{kind.authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})},
			devFile{kind.name + ".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})},
			devFile{kind.name + "-key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})})
	}
	return writeDevFiles(out, dir, files)
}

func addHosts(leaf *x509.Certificate, hosts []string) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
}

// devCertificate makes a key and a certificate. Without an authority the certificate signs itself.
func devCertificate(template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if ca == nil {
		ca, caKey = template, key
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(devLifetime) // clocks differ
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// writeDevFiles writes all files, or none if one of them exists.
func writeDevFiles(out io.Writer, dir string, files []devFile) error {
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); err == nil {
			return &cli.Error{
				Code: cli.ExitFailure, Err: fmt.Errorf("%s exists", filepath.Join(dir, f.name)),
				Hint: "name another folder, or remove the files of an earlier run",
			}
		}
	}
	if err := os.MkdirAll(dir, devFolderMode); err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, devKeyMode)
		if err != nil {
			return err
		}
		_, err = w.Write(f.pem)
		if closed := w.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, path); err != nil {
			return err
		}
	}
	return nil
}
