// Package payload shows the payload of a resource to an operator: as JSON, with
// everything secret left out (OPS-6).
//
// It is for the admin port and the watch command only. Nothing on the way from
// upstream to the clients looks into a payload.
package payload
