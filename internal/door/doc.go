// Package door is where clients are turned away before they are served: by a TLS handshake that
// fails, because they call a gRPC method that the relay does not have, because they may not
// present their node, because their bearer token is refused, or because their certificate or token does not count any more. It counts and logs them all: the log is
// one that bounds lines and what is in them, package lograte's (LIM-4).
//
// A [Door] gives package downstream's gRPC server its credentials ([Door.Guard]) and the
// answer to unknown methods ([Door.Unknown]), and the HTTP server of polls its log
// ([Door.HTTPLog]). Who is served is not its business.
package door
