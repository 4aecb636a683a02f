// Package fleet reads recorded nodes: what the clients of a fleet present to control
// planes, in a file or a folder of them, as YAML or JSON. It is for operators who want to
// know what their rules come to before a client connects. It reads files and nothing
// else; what the nodes are for is the caller's business.
package fleet
