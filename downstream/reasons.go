package downstream

import "strings"

// NackReason is the class of the reason that a client gives for a rejection. There are few, whatever clients say.
type NackReason string

// The classes. The words that show them are those of Envoy and of gRPC's clients.
const (
	NackInvalid     NackReason = "invalid"     // a field has a value that it must not have
	NackField       NackReason = "field"       // a field that the client does not know, or takes no more
	NackType        NackReason = "type"        // an extension or a type that the client does not have
	NackReference   NackReason = "reference"   // it names something that the client does not have
	NackDuplicate   NackReason = "duplicate"   // a name or an address twice
	NackCertificate NackReason = "certificate" // a certificate or a key that cannot be used
	NackAddress     NackReason = "address"     // a socket that cannot be bound
	NackOther       NackReason = "other"
)

// nackWords has words of a class, the first class that matches counts.
var nackWords = []struct {
	reason NackReason
	words  []string
}{
	{NackType, []string{"didn't find a registered", "registered implementation", "unknown type", "unsupported type", "unexpected type", "unable to unpack"}},
	{NackField, []string{"unknown field", "has unknown fields", "deprecated", "no such field", "cannot find field"}},
	{NackDuplicate, []string{"duplicate", "already exists", "defined twice"}},
	{NackCertificate, []string{"certificate", "private key", "tls context", "trusted ca", "cert chain"}},
	{NackAddress, []string{"cannot bind", "bind address", "address already in use", "failed to listen", "cannot listen"}},
	{NackReference, []string{"unknown cluster", "unknown static cluster", "unknown route", "not found", "does not exist", "unable to find"}},
	{NackInvalid, []string{"validation", "invalid", "must be", "malformed", "missing", "required", "has no ", "empty", "unable to parse", "not supported"}},
}

// NackReasons lists all classes.
func NackReasons() []NackReason {
	all := make([]NackReason, 0, len(nackWords)+1)
	for _, c := range nackWords {
		all = append(all, c.reason)
	}
	return append(all, NackOther)
}

// nackReason is the class of a client's message.
func nackReason(message string) NackReason {
	message = strings.ToLower(message)
	for _, c := range nackWords {
		for _, w := range c.words {
			if strings.Contains(message, w) {
				return c.reason
			}
		}
	}
	return NackOther
}
