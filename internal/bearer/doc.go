// Package bearer verifies the bearer tokens of clients: signed JSON Web Tokens of issuers that are
// configured, such as Kubernetes' projected service account tokens.
//
// A [Verifier] has the public keys of each issuer, from a file or a URL, and keeps them fresh. It
// owns no streams: its caller asks it again whether a token still counts ([Verifier.Check]). No
// token, and nothing that a token says before it is verified, is in an error or a log.
package bearer
