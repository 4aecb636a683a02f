package refusals

import "strings"

// Reason is why a TLS handshake of a client came to nothing; it is fit for a metric's label.
type Reason string

// The reasons.
const (
	Certificate Reason = "client_certificate" // the client's is missing, or not accepted
	Rejected    Reason = "rejected_by_client" // the client says what it does not accept
	NotTLS      Reason = "not_tls"            // the client does not speak TLS
	Protocol    Reason = "protocol"           // no common version, cipher or protocol
	Closed      Reason = "closed"             // the client went away, as probes of ports do
	Timeout     Reason = "timeout"
	NoProxy     Reason = "no_proxy_header"
	Busy        Reason = "busy"           // too many clients join, or memory is short
	NoOwn       Reason = "no_certificate" // the relay has none: its SPIFFE Workload API gives none
	Other       Reason = "other"
)

// Reasons lists them.
func Reasons() []Reason {
	return []Reason{Certificate, Rejected, NotTLS, Protocol, Closed, Timeout, NoProxy, Busy, NoOwn, Other}
}

// words are those of crypto/tls, of the network and of net/http by which reasons are told
// apart, the first that fits. Of net/http there is no error but its text.
var words = []struct {
	part   string
	reason Reason
}{
	{"SPIFFE Workload API", NoOwn},
	{"the relay takes on", Busy},
	{"remote error: tls:", Rejected},
	{"client didn't provide a certificate", Certificate},
	{"x509:", Certificate},
	{"spiffe:", Certificate},
	{"invalid signature by the client certificate", Certificate},
	{"first record does not look like a TLS handshake", NotTLS},
	{"client sent an HTTP request to an HTTPS server", NotTLS},
	{"proxyproto:", NoProxy},
	{"i/o timeout", Timeout},
	{"deadline exceeded", Timeout},
	{"EOF", Closed},
	{"connection reset", Closed},
	{"broken pipe", Closed},
	{"closed network connection", Closed},
	{"tls:", Protocol},
	{"ALPN", Protocol},
}

func reasonOf(text string) Reason {
	for _, w := range words {
		if strings.Contains(text, w.part) {
			return w.reason
		}
	}
	return Other
}
