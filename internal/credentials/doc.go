// Package credentials has what proves who somebody is, on both sides of the relay: certificates and bearer tokens, from
// files that others replace and from SPIFFE Workload APIs. Key material and tokens never appear in an error, a log or a
// report (OPS-6). The package owns no connections and no streams.
//
// # TLS
//
// [TLSClient] and [TLSServer] are TLS and mutual TLS configurations from files that may be replaced while the process
// runs, or from what a SPIFFE Workload API says. A connection that stands keeps what it was
// negotiated with, a new one uses the newest good files. Package upstream uses
// the client side, the relay the server side for its listener.
//
// A file that cannot be used never takes away what works: the last good
// certificate and roots stay in use and the reason is reported (see
// [TLSClientConfig.Report]). grpc's pemfile provider does not stand underneath:
// it logs the contents of a key that does not match its certificate, tells
// nobody else what is wrong, and wants certificate and key in one folder.
//
// # Roots
//
// [Roots] says whose certificates count: those that chain to one pool of roots, or SPIFFE's
// X509-SVIDs, each of which chains to the bundle of its own trust domain (ACC-1).
// It is the one place where a certificate is verified outside of a handshake. Handshakes use
// [Roots.Pool] and [Roots.Check], so that both say the same.
//
// # SPIFFE Workload APIs
//
// [Workloads] has the relay's certificates, bundles of trust domains (ACC-1) and bearer tokens
// (ACC-6) from SPIFFE Workload APIs: it follows each of them as long as somebody uses it, and keeps what it
// said last. It owns the connection to a Workload API and what that says.
//
// A Workload API that is away takes nothing away: the last certificate and the last token stay in use until
// they expire, and the last bundles stay. One that says that the relay has no identity (PERMISSION_DENIED)
// does: the relay shows them no more (SPIFFE Workload API, 5.2.1).
//
// # Bearer tokens
//
// [TokenFile] is the token that the relay shows a control plane, for instance the projected token of a Kubernetes
// service account (ACC-6), and [OperatorList] the tokens of the operators that the admin port knows (ACC-7).
//
// A [Verifier] verifies the tokens of clients: signed JSON Web Tokens of issuers that are configured. It has the public
// keys of each issuer, from a file or a URL, and keeps them fresh. Its caller asks it again whether a token still
// counts ([Verifier.Check]). No token, and nothing that a token says before it is verified, is in an error or a log.
package credentials
