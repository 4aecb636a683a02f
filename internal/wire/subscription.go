package wire

// Subscription is what one DeltaDiscoveryRequest says of one type (SUB-3, RES-12).
type Subscription struct {
	TypeURL                string
	Subscribe, Unsubscribe []string
	// Versions are initial_resource_versions by name; only in the first request
	// for the type on a stream.
	Versions map[string]string
}
