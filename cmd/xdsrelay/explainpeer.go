package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// peerFlags are the client's identity.
type peerFlags struct {
	peer     keyer.Peer
	cert     string
	token    string
	uid, gid int64
}

func (f *peerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cert, "peer-cert", "", "PEM `file` with the client's certificate, in place of the other --peer flags")
	flags.StringVar(&f.token, "peer-token", "", "`file` with the client's bearer token, a signed JSON Web Token: it is taken for verified")
	flags.StringVar(&f.peer.SPIFFE, "peer", "", "the client's SPIFFE `ID`, spiffe://…")
	flags.StringVar(&f.peer.Subject, "peer-subject", "", "distinguished `name`, as in \"CN=web,O=shop\"")
	flags.StringArrayVar(&f.peer.DNS, "peer-dns", nil, "DNS `name`; repeatable")
	flags.StringArrayVar(&f.peer.URIs, "peer-uri", nil, "`URI`; repeatable")
	flags.StringArrayVar(&f.peer.Emails, "peer-email", nil, "email `address`; repeatable")
	flags.StringArrayVar(&f.peer.IPs, "peer-ip", nil, "IP `address`; repeatable")
	flags.Int64Var(&f.uid, "peer-uid", -1, "the client's user, as a `number`: it comes through a unix socket")
	flags.Int64Var(&f.gid, "peer-gid", -1, "the client's group, as a `number`")
	flags.StringVar(&f.peer.Listener, "peer-listener", keyer.DefaultListener, "`name` of the listener through which the client comes")
	cmd.MarkFlagsRequiredTogether("peer-uid", "peer-gid")
	for _, other := range []string{"peer-uid", "peer-gid", "peer-listener"} {
		cli.Complete(cmd, other)
	}
	cli.Must(cmd.MarkFlagFilename("peer-cert", "pem", "crt", "cer"))
	cli.Must(cmd.MarkFlagFilename("peer-token"))
	for _, other := range []string{"peer", "peer-subject", "peer-dns", "peer-uri", "peer-email", "peer-ip"} {
		cmd.MarkFlagsMutuallyExclusive("peer-cert", other)
		cli.Complete(cmd, other)
	}
}

// identity gives the identity that the relay would read from a certificate.
func (f *peerFlags) identity() (keyer.Peer, error) {
	user, err := f.user()
	if err != nil {
		return keyer.Peer{}, err
	}
	token, err := f.bearer()
	if err != nil {
		return keyer.Peer{}, err
	}
	p := f.peer
	if f.cert != "" {
		if p, err = peerOf(f.cert); err != nil {
			return keyer.Peer{}, err
		}
	}
	p.User, p.Token, p.Listener = user, token, f.peer.Listener
	if f.cert != "" {
		return p, nil
	}
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

// bearer gives what the client's token says; nil if there is none.
func (f *peerFlags) bearer() (*keyer.Token, error) {
	if f.token == "" {
		return nil, nil //nolint:nilnil // because most clients have none
	}
	text, err := os.ReadFile(f.token)
	if err != nil {
		return nil, fmt.Errorf("--peer-token: %w", err)
	}
	t, err := credentials.UnverifiedToken(text)
	if err != nil {
		return nil, fmt.Errorf("--peer-token: %s: %w", f.token, err)
	}
	return &t, nil
}

// user gives the user of a unix socket; nil if there is none.
func (f *peerFlags) user() (*keyer.User, error) {
	if f.uid == -1 && f.gid == -1 {
		return nil, nil //nolint:nilnil // because most clients have none
	}
	for _, id := range []int64{f.uid, f.gid} {
		if id < 0 || id > math.MaxUint32 {
			return nil, fmt.Errorf("--peer-uid, --peer-gid: expected 0 to %d, got %d", uint32(math.MaxUint32), id)
		}
	}
	return &keyer.User{UID: uint32(f.uid), GID: uint32(f.gid)}, nil
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
