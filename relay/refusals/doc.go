// Package refusals counts and logs the clients that are turned away before they are served: by a TLS handshake that
// fails, because they call a gRPC method that the relay does not have, because they may not
// present their node, because their bearer token is refused, or because their certificate or token does not count any
// more. Its logger is one that bounds lines and what is in them ([logs.Limit], LIM-4).
//
// A [Log] gives package downstream's gRPC server its credentials ([Log.Guard]) and the
// answer to unknown methods ([Log.Unknown]), and the HTTP server of polls its log
// ([Log.HTTPLog]). Who is served is not its business.
package refusals
