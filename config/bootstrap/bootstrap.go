// Package bootstrap makes the bootstraps of Envoys and gRPC clients from the relay's configuration.
//
// Clients are to go to the relays, and to the control plane while all relays are away. What they hold stays valid on
// both ways, because a relay passes versions on as they are. The package starts nothing. The command
// "xdsrelay bootstrap" calls it.
package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
)

// Options are what the relay's configuration does not know.
type Options struct {
	ID, Cluster string   // of the client's node
	Relays      []string // their addresses; none: that of the listener
	Listener    string   // its name; "": [config.DefaultListenerName]
	Direct      bool     // without the control plane as the last server

	// As the client reads them. CAFile is for the relays, PlaneCAFile for the control plane; "": that of the
	// relay's configuration. CertFile and KeyFile are the client's own, for both.
	CAFile, PlaneCAFile, CertFile, KeyFile string

	ServerName string // in the certificates of the relays; "": the host of each

	Admin string // where an Envoy serves its admin port

	// Return is the time after which an Envoy begins its stream anew, at a relay if one is there.
	Return time.Duration
}

// Bootstrap is what both kinds of client need.
type Bootstrap struct {
	id, cluster string
	admin       string
	relays      server
	plane       server // without addresses: none
	delta       bool   // incremental
	perType     bool   // a stream for each type
	back        time.Duration

	// Note says why there is no control plane in it; "" if there is one, or none is wanted.
	Note string
}

// server is one or several servers of equal priority.
type server struct {
	addresses []string
	tls       *files // nil: plaintext
}

// files are those of TLS, as the client reads them.
type files struct{ ca, cert, key, name string }

// Errors of [New] that are about one of the options.
var (
	ErrAdmin       = errors.New("name the address of the Envoy's admin port")
	ErrRelays      = errors.New("name the relays")
	ErrCA          = errors.New("name the file with its CA")
	ErrCertificate = errors.New("name the files with certificate and key")
	ErrPlane       = errors.New("leave out the control plane")
)

// New reads the relay's configuration. Its errors say what is to be given.
func New(c *config.Config, o Options) (*Bootstrap, error) {
	b := &Bootstrap{id: o.ID, cluster: o.Cluster, admin: o.Admin, back: o.Return, delta: true}
	listeners := c.Server.AllListeners()
	i := slices.IndexFunc(listeners, func(l config.Listener) bool { return l.Name == o.Listener })
	switch {
	case i < 0:
		return nil, fmt.Errorf("the configuration has no listener %q", o.Listener)
	case listeners[i].Protocol == config.ProtocolREST:
		return nil, fmt.Errorf("the listener %q is for polls: name one with the protocol grpc", o.Listener)
	}
	if _, _, err := net.SplitHostPort(o.Admin); err != nil {
		return nil, fmt.Errorf("%w: expected host:port, got %q", ErrAdmin, o.Admin)
	}
	var err error
	if b.relays, err = relays(&listeners[i], o); err == nil && !o.Direct {
		err = b.addPlane(c, o)
	}
	return b, err
}

func relays(l *config.Listener, o Options) (s server, err error) {
	s.addresses = o.Relays
	if len(s.addresses) == 0 {
		host, port, _ := net.SplitHostPort(l.Listen)
		if ip, err := netip.ParseAddr(host); !strings.HasPrefix(l.Listen, "unix:") && (host == "" || err == nil && ip.IsUnspecified() || port == "0") {
			return s, fmt.Errorf("the relay listens on %s, which is no address for clients: %w", l.Listen, ErrRelays)
		}
		s.addresses = []string{l.Listen}
	}
	if l.TLS == nil {
		return s, checkAddresses(s.addresses)
	}
	s.tls = &files{ca: o.CAFile, name: o.ServerName}
	verifies := l.TLS.ClientCAFile != "" || l.TLS.SPIFFE != nil
	switch {
	case o.CAFile == "":
		return s, fmt.Errorf("the relay has TLS: %w", ErrCA)
	case verifies && o.CertFile == "":
		return s, fmt.Errorf("the relay wants certificates of clients: %w", ErrCertificate)
	case verifies:
		s.tls.cert, s.tls.key = o.CertFile, o.KeyFile
	}
	return s, checkAddresses(s.addresses)
}

// checkAddresses wants what an Envoy and a gRPC client take.
func checkAddresses(all []string) error {
	for _, a := range all {
		if _, port, err := net.SplitHostPort(a); !strings.HasPrefix(a, "unix:///") && (err != nil || port == "") {
			return fmt.Errorf("%w: expected host:port or unix:///path, got %q", ErrRelays, a)
		}
	}
	return nil
}

// addPlane adds the default upstream, and speaks with all servers what it speaks. A relay speaks everything.
func (b *Bootstrap) addPlane(c *config.Config, o Options) error {
	i := max(0, slices.IndexFunc(c.Upstreams, func(u config.Upstream) bool { return u.Default }))
	u := &c.Upstreams[i]
	switch {
	case u.Path != "":
		b.Note = fmt.Sprintf("the upstream %s is files, which clients cannot ask: they depend on the relays", u.Name)
		return nil
	case u.APIType == config.REST:
		b.Note = fmt.Sprintf("the upstream %s has no streams: clients depend on the relays", u.Name)
		return nil
	}
	b.delta = u.APIType == config.AggregatedDeltaGRPC || u.APIType == config.DeltaGRPC
	b.perType = u.APIType == config.DeltaGRPC || u.APIType == config.GRPC
	b.plane.addresses = slices.Concat(u.Endpoints...)
	if u.TLS == nil {
		return nil
	}
	if u.TLS.SPIFFE != nil {
		return fmt.Errorf("the upstream %s has its certificates from a SPIFFE Workload API, which a bootstrap has no files for: %w", u.Name, ErrPlane)
	}
	b.plane.tls = &files{ca: o.PlaneCAFile, name: u.TLS.ServerName, cert: o.CertFile, key: o.KeyFile}
	if b.plane.tls.ca == "" {
		b.plane.tls.ca = u.TLS.CAFile
	}
	if u.TLS.CertFile != "" && o.CertFile == "" {
		return fmt.Errorf("the upstream %s wants certificates of clients: %w", u.Name, ErrCertificate)
	}
	return nil
}

// serverName is what the certificate of the server at an address must have.
func (f *files) serverName(address string) string {
	if f.name != "" {
		return f.name
	}
	host, _, _ := net.SplitHostPort(address)
	return host
}
