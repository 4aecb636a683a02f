// Package apitypes links every message type of version 3 of Envoy's API, and of xDS's, into the
// program. Being linked registers a type with the protobuf library, which can make
// JSON or text of a payload, and a payload of them, only with its type and with those
// of all extensions within. Packages that do so import this one for its effect.
//
// Where types are not needed they are not looked at: resources of types that nobody
// here has heard of pass through gRPC streams as they are (VAR-8).
package apitypes
