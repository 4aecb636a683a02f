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

// Asked is the version in which content of an earlier process is presented on a new stream. No content has it, so
// the server must send the content, or say that it is gone (SUR-1). Without any version, some servers would say
// nothing of a name that does not exist, and a relay whose own control plane is away would send what it has
// restored itself: to a client that presents something else it sends that only once it is confirmed. "" would be the
// version of a server without versions.
const Asked = "xdsrelay/asked"
