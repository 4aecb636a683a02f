// Package tlsfiles builds TLS and mutual TLS configurations, for both sides of
// a connection, from files that may be replaced while the process runs, or from
// what a SPIFFE Workload API says (package workload).
//
// It owns the reading, checking and re-reading of certificate, key and CA
// files. It does not own connections: one that stands keeps what it was
// negotiated with, a new one uses the newest good files. Package upstream uses
// the client side, the relay the server side for its listener.
//
// A file that cannot be used never takes away what works: the last good
// certificate and roots stay in use and the reason is reported (see
// ClientConfig.Report). Key material never appears in an error or a report
// (OPS-6). This is also why grpc's pemfile provider does not stand underneath:
// it logs the contents of a key that does not match its certificate, tells
// nobody else what is wrong, and wants certificate and key in one folder.
package tlsfiles
