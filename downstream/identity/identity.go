// Package identity ends what a client does when its certificate does not count any more: it has
// expired, its CA is not trusted any more, or there is none although one is asked for now
// (ACC-1).
//
// A [Watch] gives the gRPC server its credentials, knows all open connections from their
// handshakes, and looks at each of them once in every period. It owns connections and no streams:
// it tells its caller of the connections that end, and closes them a moment later, so that the
// clients come back with new handshakes. Polls have connections of their own: package downstream
// has their certificates judged ([Watch.Judge]).
package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
)

// Reason is why an identity ended. It is a metric's label.
type Reason string

// The reasons.
const (
	Expired   Reason = "expired"   // the certificate, or one that it depends on
	Untrusted Reason = "untrusted" // its CA is not trusted any more
	Missing   Reason = "missing"   // the client shows none, and the relay asks for one now
)

// Reasons lists every Reason.
func Reasons() []Reason { return []Reason{Expired, Untrusted, Missing} }

// Error says that an identity has ended. Over gRPC it is an UNAUTHENTICATED.
type Error struct{ Reason Reason }

func (e *Error) Error() string {
	switch e.Reason {
	case Expired:
		return "the client's certificate has expired: connect again with a new one"
	case Missing:
		return "the relay asks for a client certificate now: connect again with one"
	default:
		return "the relay does not trust the client's certificate any more: connect again with another one"
	}
}

// verdict is what a certificate is worth: verified with the roots, until a time.
type verdict struct {
	roots *credentials.Roots
	until time.Time
}

// holds reports whether the verdict still says that a certificate counts.
func (v verdict) holds(roots *credentials.Roots, now time.Time) bool {
	return v.roots.Equal(roots) && !now.After(v.until)
}

// judge judges the certificate of a connection as a handshake would now. before is the verdict on
// it so far. Verifying takes some 200 µs, and is done only if the roots have changed, or a
// certificate ran out.
func judge(state *tls.ConnectionState, before verdict, roots *credentials.Roots, now time.Time) (verdict, error) {
	shown := len(state.VerifiedChains) > 0
	switch {
	case roots == nil && !shown:
		return before, nil
	case roots == nil: // nobody verifies certificates any more
		return before, &Error{Untrusted}
	case !shown:
		return before, &Error{Missing}
	case before.holds(roots, now):
		return verdict{roots, before.until}, nil
	case !roots.Known() && now.After(before.until):
		return before, &Error{Expired}
	case !roots.Known():
		return before, nil
	}
	chains, err := roots.Verify(state.PeerCertificates, x509.ExtKeyUsageClientAuth, now)
	if err != nil {
		if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
			return before, &Error{Expired}
		}
		return before, &Error{Untrusted}
	}
	return verdict{roots, until(chains)}, nil
}

// until is when the last of the chains runs out; a chain runs out with the first of its
// certificates.
func until(chains [][]*x509.Certificate) (last time.Time) {
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}
