// Package restjson is the REST-JSON variant of xDS (VAR-5): the shapes of its
// polls and answers on both sides, and the client that polls.
//
// A poll is a DiscoveryRequest in proto3's canonical JSON, posted to the path of
// its type ([Path]); the answer is a DiscoveryResponse, or 304 where there is
// nothing new.
//
// For the server it has [ReadRequest], [Incoming.Decode], [Transcode], [EncodeResponse],
// [WriteResponse] and [WriteError]; package downstream decides what a client is
// sent and when. For the client it has [Poll], [ReadResponse] and [Poller];
// package upstream decides what is asked for, what is acceptable, and which of
// several servers is polled.
//
// # Payloads
//
// The other variants pass payloads on as they are. JSON cannot: a payload is
// written anew from what its type says, and so is every payload within it. Hence
// all types of Envoy's API are linked (package apitypes), and a
// payload with another type in it can be neither sent nor received. That is an
// error which names the resource and the type. A field that this build does not
// know is lost. The caller is told (Lossy, Discarded): a loss must not happen in
// silence.
//
// What is decoded has protobuf's deterministic encoding, so that a resource that
// did not change has the same digest after every poll (ACK-4).
//
// Errors say what is wrong and where, and quote no value: it could be a secret
// (OPS-6).
package restjson
