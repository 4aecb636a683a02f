package server

// Kind is one of the servers that there are.
type Kind string

// The servers.
const (
	Baseline Kind = "baseline" // package baseline
	Relay    Kind = "relay"    // package relay, with a control plane given by its address
	Linear   Kind = "linear"   // go-control-plane's LinearCache
	Snapshot Kind = "snapshot" // go-control-plane's SnapshotCache
)

// Kinds are all servers, in the order in which they are shown.
func Kinds() []Kind { return []Kind{Baseline, Relay, Linear, Snapshot} }
