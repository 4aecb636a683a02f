package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// peerFlags are the client's TLS identity.
type peerFlags struct {
	peer keyer.Peer
	cert string
}

func (f *peerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cert, "peer-cert", "", "PEM `file` with the client's certificate, in place of the other --peer flags")
	flags.StringVar(&f.peer.SPIFFE, "peer", "", "the client's SPIFFE `ID`, spiffe://…")
	flags.StringVar(&f.peer.Subject, "peer-subject", "", "distinguished `name`, as in \"CN=web,O=shop\"")
	flags.StringArrayVar(&f.peer.DNS, "peer-dns", nil, "DNS `name`; repeatable")
	flags.StringArrayVar(&f.peer.URIs, "peer-uri", nil, "`URI`; repeatable")
	flags.StringArrayVar(&f.peer.Emails, "peer-email", nil, "email `address`; repeatable")
	flags.StringArrayVar(&f.peer.IPs, "peer-ip", nil, "IP `address`; repeatable")
	cli.Must(cmd.MarkFlagFilename("peer-cert", "pem", "crt", "cer"))
	for _, other := range []string{"peer", "peer-subject", "peer-dns", "peer-uri", "peer-email", "peer-ip"} {
		cmd.MarkFlagsMutuallyExclusive("peer-cert", other)
		cli.Complete(cmd, other)
	}
}

// identity gives the identity that the relay would read from a certificate.
func (f *peerFlags) identity() (keyer.Peer, error) {
	if f.cert != "" {
		return peerOf(f.cert)
	}
	p := f.peer
	if p.SPIFFE != "" {
		if !strings.HasPrefix(p.SPIFFE, "spiffe://") {
			return keyer.Peer{}, fmt.Errorf("--peer: expected spiffe://…, got %q", p.SPIFFE)
		}
		// An SVID has its ID as its one URI.
		if !slices.Contains(p.URIs, p.SPIFFE) {
			p.URIs = append([]string{p.SPIFFE}, p.URIs...)
		}
	}
	return p, nil
}

// peerOf reads the first certificate of a file, which is the client's own.
func peerOf(file string) (keyer.Peer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return keyer.Peer{}, fmt.Errorf("--peer-cert: %w", err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return keyer.Peer{}, fmt.Errorf("--peer-cert: %s: %w", file, err)
		}
		return keyer.PeerFromCertificate(leaf), nil
	}
	return keyer.Peer{}, errors.New("--peer-cert: " + file + " has no certificate in PEM form")
}
