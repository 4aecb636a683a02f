package keyer

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Peer is who a client is, and where it connects from. The zero Peer is a client
// without identity.
type Peer struct {
	// SPIFFE is the client's SPIFFE ID, "spiffe://…"; "" if it has none, or one that the
	// standard does not allow.
	SPIFFE string
	// Subject is the certificate's distinguished name as in RFC 2253.
	Subject string
	// Issuer is the distinguished name of the CA that issued the certificate.
	Issuer string
	// DNS, URIs, Emails and IPs are the certificate's alternative names; the
	// SPIFFE ID is among the URIs.
	DNS, URIs, Emails, IPs []string
	// User is the user whose process the client is, if it came through a unix socket;
	// nil otherwise.
	User *User
	// Token is what the client's bearer token says, once it is verified; nil if there is none.
	Token *Token
	// Listener is the name of the listener through which the client came; "" is
	// [DefaultListener].
	Listener string
	// Addr is the remote address, "host:port". It says where the client is,
	// not who, and changes with every connection.
	Addr string
	// Metadata gives the values of a name of the client's gRPC metadata, or of an HTTP
	// header of its poll; nil if there are none, or nothing is known. Binary ones are
	// decoded. Values may be credentials: they are only for control planes that are
	// configured to get them (ACC-6). No rule sees them.
	Metadata func(name string) []string
}

// DefaultListener is the name of the listener that every relay has.
const DefaultListener = "default"

// User is the user and the group of a process, as the kernel says.
type User struct{ UID, GID uint32 }

// Through gives the name of the listener through which the client came.
func (p *Peer) Through() string { return cmp.Or(p.Listener, DefaultListener) }

// SPIFFEParts gives the trust domain and the path of the SPIFFE ID; "" if there is none. The path
// begins with a slash, or is empty.
func (p *Peer) SPIFFEParts() (trustDomain, path string) {
	id, err := spiffeid.FromString(p.SPIFFE)
	if err != nil {
		return "", ""
	}
	return id.TrustDomain().Name(), id.Path()
}

// Identity gives one text that says to people who the client is; "" if nobody knows.
func (p *Peer) Identity() string {
	switch {
	case p.SPIFFE != "":
		return p.SPIFFE
	case p.Subject != "":
		return p.Subject
	case p.Token != nil:
		return p.Token.Subject
	case p.User != nil:
		return fmt.Sprintf("uid %d", p.User.UID)
	}
	return ""
}

// Account gives the text by which shares of limits are counted; "" if nobody knows the client. Two CAs, or two issuers
// of tokens, may give the same name to different clients: each name counts for its issuer.
func (p *Peer) Account() string {
	name, issuer := p.Identity(), p.Issuer
	if p.SPIFFE == "" && p.Subject == "" && p.Token != nil {
		issuer = p.Token.Issuer
	}
	if name == "" || issuer == "" {
		return name
	}
	return name + " by " + issuer
}

// PeerFromCertificate gives the identity in a client's leaf certificate, which
// the caller has verified: the first of tls.ConnectionState's VerifiedChains.
// nil gives the zero Peer. Addr is left to the caller.
func PeerFromCertificate(leaf *x509.Certificate) Peer {
	if leaf == nil {
		return Peer{}
	}
	p := Peer{
		Subject: leaf.Subject.String(),
		Issuer:  leaf.Issuer.String(),
		DNS:     leaf.DNSNames,
		Emails:  leaf.EmailAddresses,
	}
	for _, ip := range leaf.IPAddresses {
		p.IPs = append(p.IPs, ip.String())
	}
	for _, uri := range leaf.URIs {
		p.URIs = append(p.URIs, uri.String())
	}
	// An SVID has exactly one URI; with more of them the certificate is none,
	// and nobody can say which identity was meant.
	if len(leaf.URIs) == 1 {
		if id, err := spiffeid.FromURI(leaf.URIs[0]); err == nil {
			p.SPIFFE = id.String()
		}
	}
	return p
}

// PrintableMetadata reports whether gRPC carries a value under a name that does not end in
// -bin: printable ASCII.
func PrintableMetadata(value string) bool {
	return strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// Names are those of a Peer's certificate, and its listener, as a recorded fleet has them beside a node.
type Names struct {
	SPIFFE   string   `json:"spiffe_id,omitempty"`
	Subject  string   `json:"subject,omitempty"`
	Issuer   string   `json:"issuer,omitempty"`
	DNS      []string `json:"dns,omitempty"`
	URIs     []string `json:"uris,omitempty"`
	Emails   []string `json:"emails,omitempty"`
	IPs      []string `json:"ips,omitempty"`
	Listener string   `json:"listener,omitempty"`
}

// Names gives the peer's names.
func (p *Peer) Names() Names {
	return Names{p.SPIFFE, p.Subject, p.Issuer, p.DNS, p.URIs, p.Emails, p.IPs, p.Listener}
}

// Peer gives a client that has the names.
func (n *Names) Peer() Peer {
	return Peer{SPIFFE: n.SPIFFE, Subject: n.Subject, Issuer: n.Issuer, DNS: n.DNS, URIs: n.URIs, Emails: n.Emails, IPs: n.IPs, Listener: n.Listener}
}
