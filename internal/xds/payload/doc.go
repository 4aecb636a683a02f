// Package payload shows the payload of a resource to an operator: as JSON, with
// what is secret left out (OPS-6).
//
// It is for the admin port, the watch command and snapshots only: what [Secrets.Sensitive]
// finds does not reach a disk. Nothing on the way from upstream to the clients looks
// into a payload.
//
// A Secret is never shown, whatever the version of the API and wherever it lies:
// payloads within payloads, up to a bound, and TypedStructs are opened too. In
// everything else the fields that Envoy's API declares sensitive are blanked out.
// None of this can be done to a type that is not linked into this build:
// [Unknown] says what becomes of it.
package payload
