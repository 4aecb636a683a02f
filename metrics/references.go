package metrics

import "github.com/prometheus/client_golang/prometheus"

// ReferenceFault is a fault of a list collection, or of one of its references.
type ReferenceFault string

// The faults.
const (
	FaultUnreadable  ReferenceFault = "unreadable"  // it cannot be read, or one of its entries cannot
	FaultDuplicate   ReferenceFault = "duplicate"   // two inline entries have one name (LIST-4)
	FaultConflict    ReferenceFault = "conflict"    // an inline entry has another payload than before at one version (LIST-4)
	FaultType        ReferenceFault = "type"        // it refers to a resource of another type
	FaultAuthority   ReferenceFault = "authority"   // no upstream has the authority (LOC-4)
	FaultUnavailable ReferenceFault = "unavailable" // the upstream cannot be asked
	FaultChain       ReferenceFault = "chain"       // it leads to itself, or too far
)

// ReferenceFaults lists every ReferenceFault.
func ReferenceFaults() []ReferenceFault {
	return []ReferenceFault{
		FaultUnreadable, FaultDuplicate, FaultConflict, FaultType, FaultAuthority, FaultUnavailable, FaultChain,
	}
}

// References counts the faults of list collections. Its methods may be
// called from any goroutine.
type References struct {
	faults map[ReferenceFault]prometheus.Counter // read only
}

func newReferences(s *set) *References {
	faults := s.counter("references", "faults_total",
		"Faults in list collections that clients have, for each read.", labelReason)
	r := &References{faults: make(map[ReferenceFault]prometheus.Counter)}
	for _, f := range ReferenceFaults() {
		r.faults[f] = faults.WithLabelValues(string(f))
	}
	return r
}

// Faulty counts n faults. It ignores faults that ReferenceFaults does not list.
func (r *References) Faulty(f ReferenceFault, n int) {
	if c := r.faults[f]; c != nil {
		c.Add(float64(n))
	}
}
