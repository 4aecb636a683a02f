// Package filesource is a control plane made of files (VAR-6): it reads
// DiscoveryResponses from a file or from the files of a folder, follows their
// changes, and gives the state that they describe as a snapshot for each type.
//
// It owns the reading, checking and watching of the files. It does not own who
// is told what: package upstream makes of a snapshot what it makes of the
// responses of a state-of-the-world server, one session for each scope, all of
// them over one [Source].
//
// # Last known good
//
// A file that cannot be read, does not parse or contradicts another one keeps
// its last valid contents, and the reason is reported (ACK-6). A file that is
// gone from its folder takes its resources with it, since that is how files say
// that something was removed (RES-8). A path that is gone as a whole takes
// nothing: it is to a folder what a broken connection is to a server.
//
// # Half a file
//
// Neither YAML nor text nor binary protobuf tells a file from its first half. A
// file is therefore taken only when it was not written to for [Config.Quiet],
// and when nothing changed it while it was read. Until every file is quiet
// nothing is taken at all, so that changes to several files at once are seen at
// once; a file that is written to without end holds the others up for a while
// only.
//
// # Secrets
//
// No error, report or log line quotes a file's contents (OPS-6): parsers' errors
// name what stands in the way of them, which in the file of a Secret is the
// secret. What is kept of such an error is its place and its kind, type URLs and
// the names of fields that the API defines; of a valid file also the names of
// its resources.
package filesource
