package wire

// Subscription is what one DeltaDiscoveryRequest says of one type (SUB-3, RES-12).
type Subscription struct {
	TypeURL                string
	Subscribe, Unsubscribe []string
	// Versions are initial_resource_versions by name; only in the first request
	// for the type on a stream.
	Versions map[string]string
	// Held says that resources of the type are held from before the stream began, where
	// the state of the world has no word for their versions. The first request presents
	// [Unconfirmed] then.
	Held bool
}

// Unconfirmed is the version_info of a client of the state of the world that holds
// something and does not know whether this server has it. No server gives it, so none
// skips what it would send (ACK-4), and one that is cold itself does not take the
// client for one that has nothing to lose (RES-2).
const Unconfirmed = "unconfirmed"
